BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE hpo_attempts (
	token VARCHAR(32) NOT NULL, 
	trial_id INTEGER NOT NULL, 
	attempt INTEGER NOT NULL, 
	device VARCHAR(64) NOT NULL, 
	num_threads INTEGER NOT NULL, 
	environment_id VARCHAR(64) NOT NULL, 
	started_at VARCHAR(40) NOT NULL, 
	ended_at VARCHAR(40), 
	outcome TEXT, 
	PRIMARY KEY (token), 
	UNIQUE (trial_id, attempt)
);
INSERT INTO "hpo_attempts" VALUES('a',1,1,'cpu',2,'7372497e4f9cbabe1a71b4ee006fe8d9f78cc813f8d1cf3c7ea9400320b1e2e5','2026-03-01T12:00:00.000250+00:00','2026-03-01T12:00:00.000250+00:00','complete');
INSERT INTO "hpo_attempts" VALUES('b',2,1,'cpu',2,'7372497e4f9cbabe1a71b4ee006fe8d9f78cc813f8d1cf3c7ea9400320b1e2e5','2026-03-01T12:00:00.000250+00:00','2026-03-01T12:00:00.000250+00:00','stopped');
INSERT INTO "hpo_attempts" VALUES('c',3,1,'cpu',2,'7372497e4f9cbabe1a71b4ee006fe8d9f78cc813f8d1cf3c7ea9400320b1e2e5','2026-03-01T12:00:00.000250+00:00','2026-03-01T12:00:00.000250+00:00','for a reason');
INSERT INTO "hpo_attempts" VALUES('d',2,2,'cpu',2,'7372497e4f9cbabe1a71b4ee006fe8d9f78cc813f8d1cf3c7ea9400320b1e2e5','2026-03-01T12:00:00.000250+00:00',NULL,NULL);
CREATE TABLE hpo_checkpoints (
	trial_id INTEGER NOT NULL, 
	kind VARCHAR(8) NOT NULL, 
	uri TEXT NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	epoch INTEGER NOT NULL, 
	num_bytes INTEGER NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (trial_id, kind)
);
INSERT INTO "hpo_checkpoints" VALUES(1,'best','trials/lr-digits/0/best-00001','0000000000000000000000000000000000000000000000000000000000000001',1,1001,'2026-03-01T12:00:00.000250+00:00');
INSERT INTO "hpo_checkpoints" VALUES(1,'last','trials/lr-digits/0/last-00001','0000000000000000000000000000000000000000000000000000000000000001',1,1001,'2026-03-01T12:00:00.000250+00:00');
CREATE TABLE hpo_environments (
	environment_id VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (environment_id)
);
INSERT INTO "hpo_environments" VALUES('7372497e4f9cbabe1a71b4ee006fe8d9f78cc813f8d1cf3c7ea9400320b1e2e5','{"code_digest": "c0dec0dec0dec0dec0dec0dec0dec0dec0dec0dec0dec0dec0dec0dec0dec0de", "data_fingerprint": "da7ada7ada7ada7ada7ada7ada7ada7ada7ada7ada7ada7ada7ada7ada7ada7a", "git_is_dirty": true, "git_revision": null, "machine": {"cpu": "a processor", "os": "an operating system"}, "versions": {"python": "3.11.9", "torch": "2.14.1"}}');
CREATE TABLE hpo_measurements (
	trial_id INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	examples_seen INTEGER NOT NULL, 
	metrics_json TEXT NOT NULL, 
	action VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (trial_id, epoch)
);
INSERT INTO "hpo_measurements" VALUES(1,1,1000,'{"val_loss": 0.75}','continue','','2026-03-01T12:00:00.000250+00:00');
INSERT INTO "hpo_measurements" VALUES(1,2,2000,'{"val_loss": 0.5}','continue','','2026-03-01T12:00:00.000250+00:00');
INSERT INTO "hpo_measurements" VALUES(2,1,1000,'{"val_loss": 0.5}','continue','','2026-03-01T12:00:00.000250+00:00');
CREATE TABLE hpo_notes (
	note_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	note TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (note_id)
);
INSERT INTO "hpo_notes" VALUES(1,2,'a remark','2026-03-01T12:00:00.000250+00:00');
CREATE TABLE hpo_studies (
	study_id INTEGER NOT NULL, 
	uid VARCHAR(32) NOT NULL, 
	name VARCHAR(512) NOT NULL, 
	document TEXT NOT NULL, 
	source TEXT NOT NULL, 
	distributions_json TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	ended_at VARCHAR(40), 
	running_s FLOAT NOT NULL, 
	stop_requested_at VARCHAR(40), 
	PRIMARY KEY (study_id), 
	UNIQUE (uid), 
	UNIQUE (name)
);
INSERT INTO "hpo_studies" VALUES(1,'0123456789ab','lr-digits','{"study": "lr-digits", "objective": {"metric": "val_loss"}}','# the file
study: lr-digits
','{"lr": "{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": 1e-05, \"high\": 1.0, \"log\": true}}", "batch_size": "{\"name\": \"IntDistribution\", \"attributes\": {\"log\": false, \"step\": 1, \"low\": 16, \"high\": 256}}", "optimizer": "{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [\"adamw\", \"sgd\", \"lion\"]}}", "nesterov": "{\"name\": \"CategoricalDistribution\", \"attributes\": {\"choices\": [false, true]}}"}','stopped','not started','2026-03-01T12:00:00.000250+00:00',NULL,0.0,NULL);
CREATE TABLE hpo_test_results (
	study_id INTEGER NOT NULL, 
	config_id VARCHAR(12) NOT NULL, 
	document TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (study_id, config_id)
);
INSERT INTO "hpo_test_results" VALUES(1,'abc','{}','2026-03-01T12:00:00.000250+00:00');
CREATE TABLE hpo_trials (
	trial_id INTEGER NOT NULL, 
	study_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	params_json TEXT NOT NULL, 
	config_json TEXT NOT NULL, 
	config_id VARCHAR(12) NOT NULL, 
	replicate INTEGER NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	axis VARCHAR(512), 
	token VARCHAR(32), 
	num_attempts INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	failure VARCHAR(16), 
	best_epoch INTEGER, 
	weights_sha256 VARCHAR(64), 
	PRIMARY KEY (trial_id), 
	UNIQUE (study_id, number)
);
INSERT INTO "hpo_trials" VALUES(1,1,0,'{"lr": 0.001, "batch_size": 64, "optimizer": "adamw", "nesterov": false}','{"epochs": 3, "model": "mlp", "lr": 0.001, "batch_size": 64, "optimizer": "adamw", "nesterov": false}','56db12428578',0,'baseline',NULL,NULL,1,'',NULL,1,'5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a');
INSERT INTO "hpo_trials" VALUES(2,1,1,'{"lr": 0.001, "batch_size": 64, "optimizer": "adamw", "nesterov": false}','{"epochs": 3, "model": "mlp", "lr": 0.001, "batch_size": 64, "optimizer": "adamw", "nesterov": false}','56db12428578',1,'point','lr','d',2,'',NULL,NULL,NULL);
INSERT INTO "hpo_trials" VALUES(3,1,2,'{"lr": 0.001, "batch_size": 64, "optimizer": "adamw", "nesterov": false}','{"epochs": 3, "model": "mlp", "lr": 0.001, "batch_size": 64, "optimizer": "adamw", "nesterov": false}','56db12428578',2,'point','lr',NULL,1,'for a reason','diverged',NULL,NULL);
INSERT INTO "hpo_trials" VALUES(4,1,3,'{"lr": 0.001, "batch_size": 64, "optimizer": "adamw", "nesterov": false}','{"epochs": 3, "model": "mlp", "lr": 0.001, "batch_size": 64, "optimizer": "adamw", "nesterov": false}','56db12428578',0,'point','lr',NULL,0,'',NULL,NULL,NULL);
CREATE TABLE hpo_version (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "hpo_version" VALUES(1);
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'lr-digits');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MINIMIZE',1,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_intermediate_values" VALUES(1,1,1,0.75,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(2,1,2,0.5,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(3,2,1,0.5,'FINITE');
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_params" VALUES(1,1,'lr',0.001,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(2,1,'batch_size',64.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 16, "high": 256}}');
INSERT INTO "trial_params" VALUES(3,1,'optimizer',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", "sgd", "lion"]}}');
INSERT INTO "trial_params" VALUES(4,1,'nesterov',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [false, true]}}');
INSERT INTO "trial_params" VALUES(5,2,'lr',0.001,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(6,2,'batch_size',64.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 16, "high": 256}}');
INSERT INTO "trial_params" VALUES(7,2,'optimizer',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", "sgd", "lion"]}}');
INSERT INTO "trial_params" VALUES(8,2,'nesterov',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [false, true]}}');
INSERT INTO "trial_params" VALUES(9,3,'lr',0.001,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(10,3,'batch_size',64.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 16, "high": 256}}');
INSERT INTO "trial_params" VALUES(11,3,'optimizer',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", "sgd", "lion"]}}');
INSERT INTO "trial_params" VALUES(12,3,'nesterov',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [false, true]}}');
INSERT INTO "trial_params" VALUES(13,4,'lr',0.001,'{"name": "FloatDistribution", "attributes": {"step": null, "low": 1e-05, "high": 1.0, "log": true}}');
INSERT INTO "trial_params" VALUES(14,4,'batch_size',64.0,'{"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 16, "high": 256}}');
INSERT INTO "trial_params" VALUES(15,4,'optimizer',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": ["adamw", "sgd", "lion"]}}');
INSERT INTO "trial_params" VALUES(16,4,'nesterov',0.0,'{"name": "CategoricalDistribution", "attributes": {"choices": [false, true]}}');
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'hpo:config_id','"56db12428578"');
INSERT INTO "trial_user_attributes" VALUES(2,1,'hpo:replicate','0');
INSERT INTO "trial_user_attributes" VALUES(3,1,'hpo:role','"baseline"');
INSERT INTO "trial_user_attributes" VALUES(4,1,'hpo:axis','null');
INSERT INTO "trial_user_attributes" VALUES(5,2,'hpo:config_id','"56db12428578"');
INSERT INTO "trial_user_attributes" VALUES(6,2,'hpo:replicate','1');
INSERT INTO "trial_user_attributes" VALUES(7,2,'hpo:role','"point"');
INSERT INTO "trial_user_attributes" VALUES(8,2,'hpo:axis','"lr"');
INSERT INTO "trial_user_attributes" VALUES(9,3,'hpo:config_id','"56db12428578"');
INSERT INTO "trial_user_attributes" VALUES(10,3,'hpo:replicate','2');
INSERT INTO "trial_user_attributes" VALUES(11,3,'hpo:role','"point"');
INSERT INTO "trial_user_attributes" VALUES(12,3,'hpo:axis','"lr"');
INSERT INTO "trial_user_attributes" VALUES(13,4,'hpo:config_id','"56db12428578"');
INSERT INTO "trial_user_attributes" VALUES(14,4,'hpo:replicate','0');
INSERT INTO "trial_user_attributes" VALUES(15,4,'hpo:role','"point"');
INSERT INTO "trial_user_attributes" VALUES(16,4,'hpo:axis','"lr"');
INSERT INTO "trial_user_attributes" VALUES(17,3,'hpo:reason','"for a reason"');
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,1,0,0.5,'FINITE');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-03-01 12:00:00.000250','2026-03-01 12:00:00.000250');
INSERT INTO "trials" VALUES(2,1,1,'RUNNING','2026-03-01 12:00:00.000250',NULL);
INSERT INTO "trials" VALUES(3,2,1,'FAIL','2026-03-01 12:00:00.000250','2026-03-01 12:00:00.000250');
INSERT INTO "trials" VALUES(4,3,1,'WAITING',NULL,NULL);
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
CREATE INDEX ix_hpo_attempts_trial_id ON hpo_attempts (trial_id);
CREATE INDEX ix_hpo_notes_trial_id ON hpo_notes (trial_id);
COMMIT;
