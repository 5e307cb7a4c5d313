import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { OPERATIONS } from '../src/reference/document.ts';

const SOURCES = fileURLToPath(new URL('../src', import.meta.url));

/** Finds the routes in the sources: calls of the router, and paths that are keys of handlers for POST. */
function readRegisteredRoutes(): { method: string; path: string }[] {
  const files = globSync('*/routes.ts', { cwd: SOURCES });
  return files
    .filter((file) => !file.startsWith('reference/'))
    .flatMap((file) => {
      const text = readFileSync(`${SOURCES}/${file}`, 'utf8');
      const calls = [...text.matchAll(/router\.(\w+)\(\s*['`](\/[^'`]*)['`]/g)];
      const keys = [...text.matchAll(/^\s*'(\/[^']*)':/gm)];
      return [
        ...calls.map(([, method = '', path = '']) => ({ method, path })),
        ...keys.map(([, path = '']) => ({ method: 'post', path })),
      ];
    });
}

test('every route that the sources register is an operation of the reference', () => {
  const described = OPERATIONS.map(({ method, path }) => `${method} ${path}`);
  const isDescribed = ({ method, path }: { method: string; path: string }) => {
    const pattern = path.replaceAll(/:\w+|\$\{\w+\}/g, '[^/]+').replaceAll('.', '\\.');
    return described.some((one) => new RegExp(`^${method} ${pattern}$`).test(one));
  };
  const routes = readRegisteredRoutes();
  expect(routes.length).toBeGreaterThan(20);
  expect(routes.filter((route) => !isDescribed(route))).toEqual([]);
});
