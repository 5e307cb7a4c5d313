import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import FastEnvironment from './jest/fast-environment.mjs';
import { ModuleGraph } from './jest/module-graph.ts';

const FILES = {
  'state.mjs': "import * as yaml from 'yaml'; export const state = {}; export { yaml };",
  'late.mjs': "export { state as lateState } from './state.mjs'; export const late = {};",
  'later.mjs': "export { late } from './late.mjs';",
  'broken.mjs': "import './absent.mjs';",
  'some.json': '{ "is": "json" }',
  'some.test.mjs': `
    import { mark } from '@jest/globals';
    import { state, yaml } from './state.mjs';
    import json from './some.json' with { type: 'json' };
    export { mark, state, yaml, json };
    export const { url, filename, dirname } = import.meta;
    export const load = (...names) => Promise.all(names.map((name) => import(name)));`,
};

/** Exports of `some.test.mjs`. */
interface Exports {
  mark: unknown;
  state: object;
  yaml: object;
  json: unknown;
  url: string;
  filename: string;
  dirname: string;
  load(...names: string[]): Promise<{ late?: object; lateState?: object }[]>;
}

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'carillon-modules-'));
  const files = Object.entries(FILES);
  await Promise.all(files.map(([name, text]) => writeFile(join(folder, name), text)));
});
afterAll(() => rm(folder, { recursive: true }));

/** Resolves packages as this file does. */
function resolveModule(from: string, name: string): string {
  return createRequire(name.startsWith('.') ? from : import.meta.url).resolve(name);
}

/** Imports `some.test.mjs` as the worker of a tier does. */
function importTestFile(): Promise<Exports> {
  const transform = (_path: string, _options: object, code: string) => ({ code });
  const graph = new ModuleGraph({ resolveModule }, { transform }, []);
  graph.globals = { mark: 'of this file' };
  return graph.import(join(folder, 'some.test.mjs')) as Promise<Exports>;
}

test('two test files have the same packages, and modules of their own', async () => {
  const [one, other] = [await importTestFile(), await importTestFile()];
  expect(one.yaml).toBe(other.yaml);
  expect(one.state).not.toBe(other.state);
});

test('a module knows where it is, and gets JSON and the globals of Jest', async () => {
  const filename = join(folder, 'some.test.mjs');
  expect(await importTestFile()).toMatchObject({
    ...{ mark: 'of this file', json: { is: 'json' } },
    ...{ filename, dirname: folder, url: pathToFileURL(filename).href },
  });
});

test('modules that are imported later, at once, are of the same test file', async () => {
  const { state, load } = await importTestFile();
  const [late, later] = await load('./late.mjs', './later.mjs');
  expect(late?.lateState).toBe(state);
  expect(late?.late).toBe(later?.late);
});

test('an import that fails names the missing module, and blocks no other', async () => {
  const { load } = await importTestFile();
  await expect(load('./broken.mjs')).rejects.toThrow('absent.mjs');
  expect(await load('./late.mjs')).toHaveLength(1);
});

test('the next test file has the globals and variables that this one had', async () => {
  const environment = new FastEnvironment();
  const { fetch } = globalThis;
  Object.assign(globalThis, { fetch: () => undefined, [Symbol.for('added')]: 1 });
  Object.assign(process.env, { PATH: 'changed', CARILLON_ADDED: '1' });
  await environment.teardown();
  expect(globalThis.fetch).toBe(fetch);
  expect(Reflect.has(globalThis, Symbol.for('added'))).toBe(false);
  expect(process.env.PATH).not.toBe('changed');
  expect(process.env).not.toHaveProperty('CARILLON_ADDED');
});
