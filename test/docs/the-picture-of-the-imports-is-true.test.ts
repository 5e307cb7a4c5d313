import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from '@jest/globals';
import { readWorkspace } from '../support/architecture/workspace.ts';
import { ROOT } from '../support/first-run/test-home.ts';

const SCOPE = '@carillon/';

/** Workspace imports of each package and service, by short name. */
type Imports = Map<string, Set<string>>;

let declared: Imports;
let imported: Imports;
let drawn: Imports;
beforeAll(() => {
  const workspace = readWorkspace();
  const manifests = readManifests();
  const names = manifests.map(({ name }) => name);
  const isOwn = (name: string) => name.startsWith(SCOPE);
  declared = new Map(
    manifests.map(({ name, dependencies }) => [
      name,
      new Set(dependencies.filter(isOwn).map((name) => name.slice(SCOPE.length))),
    ]),
  );
  imported = new Map(names.map((name) => [name, new Set()]));
  for (const { path, imports } of workspace.sources) {
    const own = imports.filter(isOwn).map((name) => name.slice(SCOPE.length).split('/')[0] ?? '');
    for (const name of own) imported.get(shortName(path))?.add(name);
  }
  drawn = new Map(names.map((name) => [name, new Set()]));
  for (const [from, to] of arrows()) drawn.get(from)?.add(to);
});

test('each package.json declares exactly the imports of its code', () => {
  expect(declared).toEqual(imported);
});

test('the arrows are these imports, but for those that follow from two arrows', () => {
  const needed = [...declared].map(([from, all]) => {
    const beyond = new Set([...all].flatMap((one) => [...reached(declared, one)]));
    return [from, new Set([...all].filter((one) => !beyond.has(one)))] as const;
  });
  expect(drawn).toEqual(new Map(needed));
});

test('every service and package is in the picture', () => {
  const boxes = picture().matchAll(/^ {4}(\w+)(?:\[[\w-]+\])?$/gm);
  const names = [...boxes].map(([, id = '']) => id.replaceAll('_', '-'));
  expect(names.sort()).toEqual([...declared.keys()].sort());
});

function picture(): string {
  const text = readFileSync(join(ROOT, 'docs/structure.md'), 'utf8');
  return /```mermaid\n(flowchart TD[\s\S]*?)```/.exec(text)?.[1] ?? '';
}

/** `a & b --> c & d` is four arrows. Mermaid's ids have `_` where the names have `-`. */
function arrows(): [from: string, to: string][] {
  const lines = picture().matchAll(/^\s*([\w &]+) --> ([\w &]+)$/gm);
  const split = (text = '') => text.split('&').map((id) => id.trim().replaceAll('_', '-'));
  return [...lines].flatMap(([, from, to]) =>
    split(from).flatMap((one) => split(to).map((other): [string, string] => [one, other])),
  );
}

function reached(imports: Imports, from: string): Set<string> {
  const direct = imports.get(from) ?? new Set();
  return new Set([...direct].flatMap((one) => [one, ...reached(imports, one)]));
}

function readManifests(): { name: string; dependencies: string[] }[] {
  return globSync('{packages,services,tools}/*/package.json', { cwd: ROOT }).map((path) => {
    const { dependencies = {} } = JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as {
      dependencies?: Record<string, string>;
    };
    return { name: shortName(path), dependencies: Object.keys(dependencies) };
  });
}

function shortName(folder: string): string {
  return folder.split('/')[1] ?? '';
}
