import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { readCompose } from '../../scripts/checks/compose.ts';
import { findSource } from '../../scripts/checks/observability.ts';
import { ROOT } from '../support/first-run/test-home.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const RULES = globSync('k8s/components/monitoring/rules/*.yaml', { cwd: ROOT });
const DASHBOARDS = globSync('k8s/components/monitoring/dashboards/*.json', { cwd: ROOT });
const UNIT_TESTS = globSync('test/alerts/rules/*.yaml', { cwd: ROOT });

function promtool(...args: string[]): void {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: ROOT, encoding: 'utf8' });
  const output = status === 0 ? '' : stdout + stderr;
  expect({ status, output }).toEqual({ status: 0, output: '' });
}

test('the rules', () => promtool('check', 'rules', ...RULES));

test.each(UNIT_TESTS)('the unit tests %s', (path) => promtool('test', 'rules', path));

test('the queries of the dashboards', () => {
  const queries = DASHBOARDS.flatMap((path) => [
    ...readFileSync(join(ROOT, path), 'utf8').matchAll(/"expr": (".*")/g),
  ]);
  expect(queries.length).toBeGreaterThan(20);
  const rules = queries.map(([, text = ''], index) => ({
    record: `query:${index}`,
    expr: JSON.parse(text).replaceAll('$__rate_interval', '5m'),
  }));
  const path = join(createTemporaryFolder(), 'queries.yaml');
  // JSON is YAML.
  writeFileSync(path, JSON.stringify({ groups: [{ name: 'queries', rules }] }));
  promtool('check', 'rules', path);
});

test('the configuration of the compose file, with the rules where it finds them', () => {
  const compose = readCompose(ROOT);
  const source = (path: string) => join(ROOT, findSource(compose, 'prometheus', path));
  const text = readFileSync(source('/etc/prometheus/prometheus.yml'), 'utf8');
  const local = text.replaceAll(/\/etc\/prometheus\/\S+\.yaml/g, source);
  expect(local).not.toBe(text);
  const path = join(createTemporaryFolder(), 'prometheus.yml');
  writeFileSync(path, local);
  promtool('check', 'config', path);
});
