import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { ROOT } from '../support/first-run/test-home.ts';

const RULES = globSync('k8s/components/monitoring/rules/*.yaml', { cwd: ROOT }).sort();
const UNIT_TESTS = globSync('test/alerts/rules/*.yaml', { cwd: ROOT }).sort();

function promtool(...args: string[]): void {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: ROOT, encoding: 'utf8' });
  expect({ status, output: status === 0 ? '' : stdout + stderr }).toEqual({
    status: 0,
    output: '',
  });
}

test('promtool accepts the rules', () => promtool('check', 'rules', ...RULES));

test.each(UNIT_TESTS)('promtool passes %s', (path) => promtool('test', 'rules', path));
