import { globSync, lstatSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const MANIFESTS = 'node_modules/.pnpm/*/node_modules/{*,@*/*}/package.json';
/** Licences that allow the use in a product and its distribution; one of several that a package offers is enough. */
const ALLOWED = new Set([
  ...['0BSD', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'BlueOak-1.0.0', 'CC-BY-4.0'],
  ...['CC0-1.0', 'ISC', 'MIT', 'MPL-2.0', 'Unlicense'],
]);

interface Manifest {
  name: string;
  license?: string;
  licenses?: { type: string }[];
}

const isAllowed = (licence: string) =>
  licence
    .replaceAll(/[()]/g, '')
    .split(' OR ')
    .some((choice) => choice.split(' AND ').every((part) => ALLOWED.has(part)));

test('every installed package has a licence of the list', () => {
  const own = globSync(MANIFESTS, { cwd: ROOT }).filter(
    (path) => !lstatSync(`${ROOT}/${dirname(path)}`).isSymbolicLink(),
  );
  const refused = own.flatMap((path) => {
    const manifest = JSON.parse(readFileSync(`${ROOT}/${path}`, 'utf8')) as Manifest;
    const licence = manifest.license ?? manifest.licenses?.[0]?.type ?? 'none';
    return isAllowed(licence) ? [] : [`${manifest.name}: ${licence}`];
  });
  expect(own.length).toBeGreaterThan(100);
  expect(refused).toEqual([]);
});
