import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type ConsoleUnderTest, startConsole } from './console-under-test.ts';

const ROOT = join(import.meta.dirname, '../../..');
const RULES = join(ROOT, 'k8s/components/monitoring/prometheus-rule.yaml');

let started: ConsoleUnderTest;
beforeAll(async () => {
  started = await startConsole();
});
afterAll(() => started.stop());

async function get(path: string) {
  const response = await fetch(`${started.url}${path}`);
  const { status, headers } = response;
  return { status, type: headers.get('content-type'), body: await response.text() };
}

test('the address of each alert’s runbook has its text', async () => {
  const addresses = readFileSync(RULES, 'utf8').matchAll(/runbook_url: https:\/\/[^/]+(\S+)/g);
  const paths = [...addresses].map(([, path = '']) => path);
  expect(paths.length).toBeGreaterThan(15);
  for (const path of paths) {
    const body = readFileSync(join(ROOT, 'docs/run', `${path}.md`), 'utf8');
    expect(await get(path)).toEqual({ status: 200, type: 'text/plain; charset=utf-8', body });
  }
});

test.each(['CarillonNothing', '..%2foperating', 'CarillonApiSlow.md'])(
  'there is no runbook %s',
  async (name) => {
    const { status, type, body } = await get(`/runbooks/${name}`);
    expect([status, type]).toEqual([404, 'application/json; charset=utf-8']);
    expect(JSON.parse(body)).toMatchObject({ code: 'NOT_FOUND' });
  },
);
