import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describeFile, type SourceFile } from './source-file.ts';

/** The files that the architecture rules check. */
export interface Workspace {
  /** Names of the run-time dependencies of the root package.json. */
  rootDependencies: string[];
  /** Files of the product. */
  sources: SourceFile[];
  /** Tests and their support. */
  tests: SourceFile[];
}

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const SOURCES = ['{packages,services,tools}/*/src/**/*.{ts,tsx,mjs}', 'tools/*/**/*.mjs'];
const TESTS = ['test/**/*.{ts,mjs}', '{packages,services,tools}/*/test/**/*.{ts,mjs}'];

/** Reads the workspace from disk and parses every source file (about 10 ms per hundred files). */
export function readWorkspace(): Workspace {
  const tests = findFiles(TESTS);
  const sources = findFiles(SOURCES).filter((path) => !tests.includes(path));
  return {
    rootDependencies: readRootDependencies(),
    sources: sources.map(readSource),
    tests: tests.map(readSource),
  };
}

function findFiles(patterns: string[]): string[] {
  const found = globSync(patterns, { cwd: ROOT, exclude: (path) => path.includes('node_modules') });
  return [...new Set(found)].sort();
}

function readRootDependencies(): string[] {
  const { dependencies = {} } = JSON.parse(readFileSync(`${ROOT}/package.json`, 'utf8')) as {
    dependencies?: Record<string, string>;
  };
  return Object.keys(dependencies);
}

function readSource(path: string): SourceFile {
  return describeFile(path, readFileSync(`${ROOT}/${path}`, 'utf8'));
}
