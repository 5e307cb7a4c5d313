import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../first-run/test-home.ts';

/**
 * Reads the numbers that a source file declares at its top level, such as `const BODY_BYTES = 16 * 1024;`.
 *
 * @returns a function that returns the number of this name, and throws if the file has none
 */
export function readConstants(path: string): (name: string) => number {
  const declarations = readFileSync(join(ROOT, path), 'utf8').matchAll(
    /^(?:export )?const ([A-Z_]+) = ([\d._]+(?: \* [\d._]+)*);/gm,
  );
  const values = new Map(
    Array.from(declarations, ([, name, product = '']) => [
      name,
      product.split(' * ').reduce((value, factor) => value * Number(factor.replaceAll('_', '')), 1),
    ]),
  );
  return (name) => {
    const value = values.get(name);
    if (value === undefined) throw new Error(`${path} declares no number ${name}`);
    return value;
  };
}
