#!/bin/sh
# Runs once, when the data volume is empty: two databases, each with an owner that sees no other.
set -eu

create() { # name, password
    psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username postgres --dbname postgres \
        --set name="$1" <<SQL
\set password \`cat "$2"\`
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
}

create hpo /run/secrets/hpo_db_password
create mlflow /run/secrets/mlflow_db_password
