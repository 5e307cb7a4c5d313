import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT } from '../support/first-run/test-home.ts';
import { listVariables, renderSettingsPage, SECRETS } from '../support/settings-page.ts';

/** Names that sound like a secret; the address of the console has no password. */
const SECRETIVE = /KEY|PEPPER|SECRET|PASSWORD|TOKEN|URI|^(?!CONSOLE_|PUBLIC_).*URL/;

test('docs/run/settings.md is what `npm run docs:settings` writes', () => {
  expect(readFileSync(join(ROOT, 'docs/run/settings.md'), 'utf8')).toBe(renderSettingsPage());
});

test('every variable that sounds like a secret is marked as one, and every mark is of a variable', () => {
  const variables = listVariables();
  expect(variables.filter((name) => SECRETIVE.test(name) && !(name in SECRETS))).toEqual([]);
  expect(Object.keys(SECRETS).filter((name) => !variables.includes(name))).toEqual([]);
});

test('every variable has one row in its table', () => {
  const page = renderSettingsPage();
  const rows = [...page.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name]) => name);
  expect(new Set(rows)).toEqual(new Set(listVariables()));
});
