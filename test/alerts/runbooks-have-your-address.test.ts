import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { ROOT } from '../support/first-run/test-home.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const BASE = 'https://git.example.com/ops/carillon/blob/main';
const SCRIPT = join(ROOT, 'scripts/write-prometheus-rule.mjs');

interface RuleFile {
  groups: { rules: { annotations?: { runbook_url: string } }[] }[];
}

function writeRules(...args: string[]) {
  return spawnSync(process.execPath, [SCRIPT, ...args], { encoding: 'utf8' });
}

/** Lists the addresses of the runbooks in the object and in the plain rule files. */
function readAddresses(folder: string): { ofObject: string[]; ofFiles: string[] } {
  const list = ({ groups }: RuleFile) =>
    groups.flatMap(({ rules }) => rules.flatMap((rule) => rule.annotations?.runbook_url ?? []));
  const read = (path: string) => parse(readFileSync(join(folder, path), 'utf8'));
  const files = readdirSync(join(folder, 'rules')).sort();
  return {
    ofObject: list(read('prometheus-rule.yaml').spec),
    ofFiles: files.flatMap((name) => list(read(`rules/${name}`))),
  };
}

test('each alert has the URL of its runbook below the given address, also when the rules are written again', () => {
  const out = createTemporaryFolder();
  for (const runbooks of [[`--runbooks=${BASE}/`], []]) {
    expect(writeRules(`--out=${out}`, ...runbooks)).toMatchObject({ status: 0, stderr: '' });
    const { ofObject, ofFiles } = readAddresses(out);
    expect(ofObject.length).toBeGreaterThan(15);
    expect(ofFiles).toEqual(ofObject);
    for (const address of ofObject) {
      expect(address.startsWith(`${BASE}/docs/run/runbooks/`)).toBe(true);
      expect(existsSync(join(ROOT, address.slice(BASE.length)))).toBe(true);
    }
  }
});

test('without an address, or with an empty one, the links are paths of the repository', () => {
  const out = createTemporaryFolder();
  writeRules(`--out=${out}`, `--runbooks=${BASE}`);
  writeRules(`--out=${out}`, '--runbooks=');
  const { ofObject } = readAddresses(out);
  expect(ofObject.filter((address) => !address.startsWith('docs/run/runbooks/'))).toEqual([]);
  const written = readFileSync(join(out, 'prometheus-rule.yaml'), 'utf8');
  expect(written).toBe(
    readFileSync(join(ROOT, 'k8s/components/monitoring/prometheus-rule.yaml'), 'utf8'),
  );
});

test('an invalid address is refused', () => {
  const { status, stderr } = writeRules(`--out=${createTemporaryFolder()}`, '--runbooks=wiki');
  expect(status).toBe(1);
  expect(stderr).toContain('--runbooks=wiki is not an address');
});
