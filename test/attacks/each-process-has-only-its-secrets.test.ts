import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { findProcesses } from '../support/first-run/find-processes.ts';
import { type Stack, startStack } from '../support/stack.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Variables that Node, the system and the libraries read; the last one is of the C library. */
const OF_THE_SYSTEM =
  /^(PATH|HOME|TZ|LANG|PWD|NODE_\w+|TMPDIR|MALLOC_(ARENA_MAX|MMAP_THRESHOLD_|TRIM_THRESHOLD_))$/;
/** Where variables are read; the simulated device is a run of the command line. */
const SOURCES: Record<string, string> = {
  cli: 'services/cli/src/stack.ts',
  sandbox: 'services/sandbox/src/main.ts',
};

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ demo: true, dashboards: 1, ownMongodb: true });
});
afterAll(() => stack?.stop());

interface RunningProcess {
  service: string;
  env: Map<string, string>;
}

/** All processes of the stack but the supervisor, which gives the others their variables. */
function listProcesses(): RunningProcess[] {
  return findProcesses(stack.home)
    .map((pid) => ({ service: serviceOf(pid), env: readEnvironment(pid) }))
    .filter(({ service }) => service !== 'supervisor');
}

function serviceOf(pid: number): string {
  const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  return (
    /(?:services|tools)\/([\w-]+)\//.exec(words)?.[1] ?? basename(words.split(/[\0 ]/)[0] ?? '')
  );
}

function readEnvironment(pid: number): Map<string, string> {
  const pairs = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean);
  return new Map(pairs.map((pair) => [pair.replace(/=.*/s, ''), pair.replace(/^[^=]*=/, '')]));
}

/** The processes in whose environment a text is found. */
function servicesKnowing(text: string): string[] {
  const knowing = listProcesses().filter(({ env }) =>
    [...env.values()].some((value) => value.includes(text)),
  );
  return [...new Set(knowing.map(({ service }) => service))].sort();
}

/** The code that reads the environment of a process; Redis and MongoDB read nothing of ours. */
function readSource(service: string): string {
  const file = SOURCES[service] ?? `services/${service}/src/environment.ts`;
  return existsSync(join(ROOT, file)) ? read(file) + read('packages/runtime/src/env.ts') : '';
}

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

test('a secret is given to the processes that use it, and to no other', () => {
  const secrets = JSON.parse(readFileSync(join(stack.home, 'secrets.json'), 'utf8'));
  const services = listProcesses().map(({ service }) => service);
  expect(services).toEqual(expect.arrayContaining(['cli', 'sandbox', 'scheduler', 'mongod']));
  expect(servicesKnowing(secrets.apiKeyPepper)).toEqual(['api', 'dashboard']);
  expect(servicesKnowing(secrets.deviceAuthKeys)).toEqual(['api', 'device-gateway']);
  expect(servicesKnowing(secrets.credentialKeys)).toEqual(['dashboard', 'delivery-worker']);
  expect(servicesKnowing(secrets.apiKey)).toEqual([]);
  const withData = ['api', 'dashboard', 'delivery-worker', 'device-gateway', 'scheduler'];
  expect(servicesKnowing(stack.dev.mongodb)).toEqual(withData);
  expect(servicesKnowing(stack.dev.redis)).toEqual(withData);
});

test('a process has no variable that its code does not read', () => {
  const unread = listProcesses().flatMap(({ service, env }) => {
    const names = [...env.keys()].filter((name) => !OF_THE_SYSTEM.test(name));
    const source = readSource(service);
    return names
      .filter((name) => !new RegExp(`\\b${name.replace(/_FILE$/, '(_FILE)?')}\\b`).test(source))
      .map((name) => `${service}: ${name}`);
  });
  expect(unread).toEqual([]);
});
