import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { MongoClient } from 'mongodb';
import { parseRedisUrl } from '../../packages/core/src/redis-url.ts';
import { type Compose, readCompose } from './compose.ts';
import { compare, demand, readText } from './files.ts';

const SCRIPTS = 'k8s/components/valkey-sentinel/';

/** Checks the servers of the profile `replicas` of docker-compose.yml, and the commented addresses. */
export function checkReplicas(root: string): string[] {
  const compose = readCompose(root);
  const ofProfile = Object.entries(compose.services)
    .filter(([, { profiles }]) => profiles?.includes('replicas'))
    .map(([name]) => name);
  const valkey = ofProfile.filter((name) => name.startsWith('valkey'));
  const mongodb = ofProfile.filter((name) => name.startsWith('mongodb'));
  return [
    ...demand(
      isDeepStrictEqual([valkey.length, mongodb.length, ofProfile.length], [5, 2, 7]),
      `the profile replicas has ${ofProfile}`,
    ),
    ...valkey.flatMap((name) => checkValkey(root, compose, name)),
    ...mongodb.flatMap((name) => checkMongodb(compose, name)),
    ...checkAddresses(readText(root, 'docker-compose.yml'), compose, { valkey, mongodb }),
  ].map((problem) => `docker-compose.yml: ${problem}`);
}

/** Checks that a server or Sentinel names services, runs a script that exists, and keeps its data in a volume of its own. */
function checkValkey(root: string, { services, volumes }: Compose, name: string): string[] {
  const { environment = {}, networks, command, volumes: mounts = [] } = services[name] ?? {};
  const { NODE, NODES = '', SENTINELS = '' } = environment;
  const unknown = `${NODES} ${SENTINELS}`.split(' ').filter((one) => services[one] === undefined);
  const script = command?.at(-1)?.replace('/scripts/', SCRIPTS) ?? '';
  return [
    ...demand(NODE === name, `${name} is called ${NODE}`),
    ...unknown.map((one) => `${name} names ${one}, which is no service`),
    ...demand(
      isDeepStrictEqual(networks, services.valkey?.networks),
      `${name} is in other networks than valkey`,
    ),
    ...demand(existsSync(join(root, script)), `${name} runs ${script}, which does not exist`),
    ...demand(
      mounts.includes(`${name}:/data`) && name in volumes,
      `${name} has no volume of its own`,
    ),
  ];
}

/** Checks that a member of the replica set differs from the first in its data alone. */
function checkMongodb({ services, volumes }: Compose, name: string): string[] {
  const own = [`${name}:/data/db`, `${name}-config:/data/configdb`];
  const like = { ...services.mongodb, profiles: ['replicas'], volumes: own };
  return [
    ...demand(isDeepStrictEqual(services[name], like), `${name} differs from mongodb`),
    ...own
      .map((volume) => volume.replace(/:.*/, ''))
      .flatMap((volume) => demand(volume in volumes, `there is no volume ${volume}`)),
  ];
}

/** Checks that the commented addresses name the Sentinels and their primary, and all members of the replica set. */
function checkAddresses(
  text: string,
  { services }: Compose,
  { valkey, mongodb }: { valkey: readonly string[]; mongodb: readonly string[] },
): string[] {
  const sentinels = valkey.filter((name) => services[name]?.command?.at(-1)?.includes('sentinel'));
  const { hosts, ...target } = parseRedisUrl(/redis\+sentinel:\/\/\S+/.exec(text)?.[0] ?? '');
  const primary = services[sentinels[0] ?? '']?.environment?.NAME;
  const uri = /mongodb:\/\/mongodb,\S+/.exec(text)?.[0] ?? '';
  const { hosts: members, replicaSet } = new MongoClient(uri).options;
  return [
    ...compare(
      'Sentinels',
      hosts.map(({ host }) => host),
      sentinels,
    ),
    ...demand(
      target.kind === 'sentinel' && target.name === primary,
      `the address of the Sentinels has another name than ${primary}`,
    ),
    ...compare(
      'members',
      members.map(({ host = '' }) => host),
      ['mongodb', ...mongodb],
    ),
    ...demand(
      services.mongodb?.command?.includes(`--replSet=${replicaSet}`) === true,
      'the address of MongoDB names another replica set',
    ),
  ];
}
