import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import { parse } from 'yaml';
import { parseRedisUrl } from '../../packages/core/src/redis-url.ts';
import { ROOT } from '../support/first-run/test-home.ts';

interface Service {
  command: string[];
  profiles?: string[];
  environment?: Record<string, string>;
  volumes?: string[];
  networks: string[];
}

const text = readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8');
const { services, volumes } = parse(text, { merge: true }) as {
  services: Record<string, Service>;
  volumes: object;
};
const ofProfile = Object.entries(services).filter(([, { profiles }]) =>
  profiles?.includes('replicas'),
);
const ofValkey = ofProfile.filter(([name]) => name.startsWith('valkey'));
const ofMongodb = ofProfile.filter(([name]) => name.startsWith('mongodb'));

test('each name in the settings of the servers and Sentinels is a service', () => {
  expect([ofValkey.length, ofMongodb.length, ofProfile.length]).toEqual([5, 2, 7]);
  for (const [name, { environment = {}, networks }] of ofValkey) {
    const { NODE, NODES = '', SENTINELS = '' } = environment;
    expect(NODE).toBe(name);
    const named = [...NODES.split(' '), ...SENTINELS.split(' ')];
    expect(named.filter((one) => services[one] === undefined)).toEqual([]);
    expect(networks).toEqual(services.valkey?.networks);
  }
});

test('each runs a script that exists, and keeps its data in a volume of its own', () => {
  for (const [name, { command, volumes: mounts = [] }] of ofValkey) {
    const script = command.at(-1)?.replace('/scripts/', 'k8s/components/valkey-sentinel/') ?? '';
    expect(existsSync(join(ROOT, script))).toBe(true);
    expect(mounts).toContain(`${name}:/data`);
    expect(volumes).toHaveProperty(name);
  }
});

test('the commented address names the Sentinels and the primary', () => {
  const url = /redis\+sentinel:\/\/\S+/.exec(text)?.[0] ?? '';
  const { hosts, ...target } = parseRedisUrl(url);
  const sentinels = ofValkey.filter(([, { command }]) => command.at(-1)?.includes('sentinel'));
  expect(hosts.map(({ host }) => host)).toEqual(sentinels.map(([name]) => name));
  expect(target).toMatchObject({ kind: 'sentinel', name: sentinels[0]?.[1].environment?.NAME });
});

test('the other members of the replica set differ from the first in their data alone', () => {
  const first = services.mongodb;
  for (const [name, service] of ofMongodb) {
    const own = [`${name}:/data/db`, `${name}-config:/data/configdb`];
    expect(service).toEqual({ ...first, profiles: ['replicas'], volumes: own });
    for (const volume of own) expect(volumes).toHaveProperty(volume.replace(/:.*/, ''));
  }
});

test('the commented address names all members', () => {
  const uri = /mongodb:\/\/mongodb,\S+/.exec(text)?.[0] ?? '';
  const { hosts, replicaSet } = new MongoClient(uri).options;
  expect(hosts.map(({ host }) => host)).toEqual(['mongodb', ...ofMongodb.map(([name]) => name)]);
  expect(services.mongodb?.command).toContain(`--replSet=${replicaSet}`);
});
