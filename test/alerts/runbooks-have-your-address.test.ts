import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT } from '../support/first-run/test-home.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const BASE = 'https://git.example.com/ops/carillon/blob/main';

function writeRules(...args: string[]) {
  const script = join(ROOT, 'scripts/write-prometheus-rule.mjs');
  return spawnSync(process.execPath, [script, ...args], { encoding: 'utf8' });
}

/** Lists the addresses of the runbooks in files. */
function readAddresses(folder: string, ...paths: string[]): string[] {
  const texts = paths.map((path) => readFileSync(join(folder, path), 'utf8')).join('');
  return [...texts.matchAll(/^ +runbook_url: (\S+)$/gm)].map(([, address = '']) => address);
}

test('each alert has the URL of its runbook below the given address, also when the rules are written again', () => {
  const out = createTemporaryFolder();
  for (const runbooks of [[`--runbooks=${BASE}/`], []]) {
    expect(writeRules(`--out=${out}`, ...runbooks)).toMatchObject({ status: 0, stderr: '' });
    const addresses = readAddresses(out, 'prometheus-rule.yaml');
    expect(addresses.length).toBeGreaterThan(15);
    const files = readdirSync(join(out, 'rules')).sort();
    expect(readAddresses(join(out, 'rules'), ...files)).toEqual(addresses);
    const paths = addresses.map((address) => address.replace(`${BASE}/docs/run/runbooks/`, ''));
    for (const path of paths)
      expect([path, existsSync(join(ROOT, 'docs/run/runbooks', path))]).toEqual([path, true]);
  }
});

test('with an empty address, the links are paths of the repository', () => {
  const out = createTemporaryFolder();
  writeRules(`--out=${out}`, `--runbooks=${BASE}`);
  writeRules(`--out=${out}`, '--runbooks=');
  const written = readFileSync(join(out, 'prometheus-rule.yaml'), 'utf8');
  const ours = join(ROOT, 'k8s/components/monitoring/prometheus-rule.yaml');
  expect(written).toBe(readFileSync(ours, 'utf8'));
});

test('an invalid address is refused', () => {
  const { status, stderr } = writeRules(`--out=${createTemporaryFolder()}`, '--runbooks=wiki');
  expect(status).toBe(1);
  expect(stderr).toContain('--runbooks=wiki is not an address');
});
