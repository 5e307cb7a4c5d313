import { globSync, lstatSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { demand, readText } from './files.ts';

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

/** Checks that every installed package has a licence of the list. */
export function checkLicences(root: string): string[] {
  const installed = globSync(MANIFESTS, { cwd: root }).filter(
    (path) => !lstatSync(join(root, dirname(path))).isSymbolicLink(),
  );
  const problems = installed.flatMap((path) => {
    const manifest = JSON.parse(readText(root, path)) as Manifest;
    const licence = manifest.license ?? manifest.licenses?.[0]?.type ?? 'none';
    return demand(isAllowed(licence), `${manifest.name} has the licence ${licence}`);
  });
  return [...problems, ...demand(installed.length > 100, 'hardly any package is installed')];
}
