// Creates the secrets that docker-compose.yml mounts. A file that exists is kept, so that it can be repeated.
//
//   node create-secrets.mjs FOLDER [NAME OR ADDRESS OF THE SERVER …]

import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeAuthority, makeServerCertificate } from '../../packages/runtime/src/certificates.ts';

const AUTHORITY_VALIDITY_DAYS = 3_650;
/** Apple's systems reject server certificates valid for more than 825 days. */
const SERVER_VALIDITY_DAYS = 800;
/** The containers' user differs from the one here, so the folder protects the files, not their own mode. */
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o444;

const [folder = 'secrets', ...names] = process.argv.slice(2);

function createFile(name, content) {
  const path = join(folder, name);
  if (existsSync(path)) return;
  writeFileSync(path, content, { flag: 'wx', mode: FILE_MODE });
  chmodSync(path, FILE_MODE);
  process.stdout.write(`created ${path}\n`);
}

const hex = () => randomBytes(32).toString('hex');

mkdirSync(join(folder, 'tls'), { recursive: true });
chmodSync(join(folder, 'tls'), 0o755);
chmodSync(folder, FOLDER_MODE);
createFile('mongodb-uri', 'mongodb://mongodb:27017/carillon?replicaSet=carillon\n');
createFile('redis-url', 'redis://valkey:6379\n');
// Of a Redis for presence alone, if there is one.
createFile('presence-redis-url', '');
createFile('api-key-pepper', `${hex()}\n`);
createFile('device-auth-keys', `1:${hex()}\n`);
createFile('credential-keys', `1:${hex()}\n`);
// From the OpenID provider of the console, if there is one.
createFile('oidc-client-secret', '');
// Of the user `admin`, for the profile `observability`.
createFile('grafana-password', `${hex()}\n`);
// Certificates of own authorities; an empty file stands for the public ones.
mkdirSync(join(folder, 'authorities'), { recursive: true });
chmodSync(join(folder, 'authorities'), 0o755);
for (const name of ['mongodb', 'redis', 'web-push', 'webhooks']) {
  createFile(`authorities/${name}.pem`, '');
}
if (!existsSync(join(folder, 'tls/server.pem'))) {
  const authority = await makeAuthority(AUTHORITY_VALIDITY_DAYS);
  const hosts = ['localhost', '127.0.0.1', ...names];
  const server = await makeServerCertificate(authority, hosts, SERVER_VALIDITY_DAYS);
  // The authority's key is not kept: a later certificate comes from an authority that devices know anyway.
  createFile('tls/ca.pem', authority.certificate);
  createFile('tls/server-key.pem', server.key);
  createFile('tls/server.pem', server.certificate);
}
// The name by which haproxy finds the key of server.pem.
if (!existsSync(join(folder, 'tls/server.pem.key'))) {
  symlinkSync('server-key.pem', join(folder, 'tls/server.pem.key'));
}
