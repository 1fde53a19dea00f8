#!/bin/sh
# Starts hpo against the ledger and the tracking server of the compose file.
# Secrets come from files and reach no command line, URL or log.
set -eu
umask 077

db_password=$(cat /run/secrets/hpo_db_password)
MLFLOW_TRACKING_PASSWORD=$(cat /run/secrets/mlflow_admin_password)
export MLFLOW_TRACKING_PASSWORD

export PGPASSFILE=/tmp/pgpass
[ -s "$PGPASSFILE" ] || echo "postgres:5432:hpo:hpo:$db_password" >"$PGPASSFILE"

exec hpo "$@"
