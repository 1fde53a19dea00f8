#!/bin/sh
# Starts the tracking server. Secrets come from files and reach no command line, URL or log.
set -eu
umask 077

db_password=$(cat /run/secrets/mlflow_db_password)
admin_password=$(cat /run/secrets/mlflow_admin_password)
MLFLOW_FLASK_SERVER_SECRET_KEY=$(cat /run/secrets/mlflow_flask_key)
export MLFLOW_FLASK_SERVER_SECRET_KEY

export PGPASSFILE=/tmp/pgpass
echo "postgres:5432:mlflow:mlflow:$db_password" >"$PGPASSFILE"

export MLFLOW_AUTH_CONFIG_PATH=/tmp/basic_auth.ini
cat >"$MLFLOW_AUTH_CONFIG_PATH" <<INI
[mlflow]
default_permission = READ
database_uri = postgresql+psycopg://mlflow@postgres:5432/mlflow
admin_username = admin
admin_password = $admin_password
INI

exec mlflow server \
    --app-name basic-auth \
    --host 0.0.0.0 --port 5000 --workers 1 \
    --backend-store-uri postgresql+psycopg://mlflow@postgres:5432/mlflow \
    --artifacts-destination /mlartifacts
