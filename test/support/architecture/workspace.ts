import { globSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeFile, type SourceFile } from './source-file.ts';

/** What a package.json says of its dependencies at run time. */
export interface Manifest {
  /** From the repository's root: `packages/core`; empty for the root itself. */
  folder: string;
  name: string;
  dependencies: string[];
}

/** All that the architecture's rules look at. */
export interface Workspace {
  root: Manifest;
  manifests: Manifest[];
  /** The product. */
  sources: SourceFile[];
  /** The tests and what supports them. */
  tests: SourceFile[];
}

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const SOURCES = ['{packages,services}/*/src/**/*.{ts,tsx,mjs}', 'services/*/**/*.mjs'];
const TESTS = ['test/**/*.{ts,mjs}', '{packages,services}/*/test/**/*.{ts,mjs}'];

/** Reads the workspace from disk, parsing every source file (some 10 ms for a hundred). */
export function readWorkspace(): Workspace {
  const tests = find(TESTS);
  const sources = find(SOURCES).filter((path) => !tests.includes(path));
  return {
    root: readManifest('package.json'),
    manifests: find(['{packages,services}/*/package.json']).map(readManifest),
    sources: sources.map(readSource),
    tests: tests.map(readSource),
  };
}

/** The folder of the package or service that a file belongs to: `packages/core`. */
export function folderOf(path: string): string {
  return path.split('/').slice(0, 2).join('/');
}

function find(patterns: string[]): string[] {
  const found = globSync(patterns, { cwd: ROOT, exclude: (path) => path.includes('node_modules') });
  return [...new Set(found)].sort();
}

function readManifest(path: string): Manifest {
  const { name, dependencies = {} } = JSON.parse(readFileSync(`${ROOT}/${path}`, 'utf8')) as {
    name: string;
    dependencies?: Record<string, string>;
  };
  const folder = dirname(path);
  return { folder: folder === '.' ? '' : folder, name, dependencies: Object.keys(dependencies) };
}

function readSource(path: string): SourceFile {
  return describeFile(path, readFileSync(`${ROOT}/${path}`, 'utf8'));
}
