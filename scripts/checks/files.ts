import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

/** Finds problems of the repository in a folder: one text each, none when all is right. */
export type Check = (root: string) => string[] | Promise<string[]>;

/** Finds files, without those of installed packages. @returns their paths from the root, sorted */
export function findFiles(root: string, ...patterns: readonly string[]): string[] {
  const exclude = (path: string) => path.includes('node_modules');
  return [...new Set(globSync(patterns, { cwd: root, exclude }))].sort();
}

export function readText(root: string, path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

export function readYaml<T>(root: string, path: string): T {
  return parse(readText(root, path), { merge: true }) as T;
}

/** Returns the problem unless the condition holds. */
export function demand(condition: boolean, problem: string): string[] {
  return condition ? [] : [problem];
}

/** Compares lists, order included. */
export function compare(
  what: string,
  actual: readonly string[],
  expected: readonly string[],
): string[] {
  const problems = [
    ...expected.filter((one) => !actual.includes(one)).map((one) => `${what}: missing: ${one}`),
    ...actual.filter((one) => !expected.includes(one)).map((one) => `${what}: unexpected: ${one}`),
  ];
  if (problems.length > 0) return problems;
  const isSame = actual.join('\n') === expected.join('\n');
  return demand(isSame, `${what}: repeated or in another order: ${actual.join(', ')}`);
}
