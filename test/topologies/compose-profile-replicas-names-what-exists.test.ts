import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
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

test('each name in the settings of the servers and Sentinels is a service', () => {
  expect(ofProfile.length).toBe(5);
  for (const [name, { environment = {}, networks }] of ofProfile) {
    const { NODE, NODES = '', SENTINELS = '' } = environment;
    expect(NODE).toBe(name);
    const named = [...NODES.split(' '), ...SENTINELS.split(' ')];
    expect(named.filter((one) => services[one] === undefined)).toEqual([]);
    expect(networks).toEqual(services.valkey?.networks);
  }
});

test('each runs a script that exists, and keeps its data in a volume of its own', () => {
  for (const [name, { command, volumes: mounts = [] }] of ofProfile) {
    const script = command.at(-1)?.replace('/scripts/', 'k8s/components/valkey-sentinel/') ?? '';
    expect(existsSync(join(ROOT, script))).toBe(true);
    expect(mounts).toContain(`${name}:/data`);
    expect(volumes).toHaveProperty(name);
  }
});

test('the address that stands beside them names the Sentinels and the primary', () => {
  const url = /redis\+sentinel:\/\/\S+/.exec(text)?.[0] ?? '';
  const { hosts, ...target } = parseRedisUrl(url);
  const sentinels = ofProfile.filter(([, { command }]) => command.at(-1)?.includes('sentinel'));
  expect(hosts.map(({ host }) => host)).toEqual(sentinels.map(([name]) => name));
  expect(target).toMatchObject({ kind: 'sentinel', name: sentinels[0]?.[1].environment?.NAME });
});
