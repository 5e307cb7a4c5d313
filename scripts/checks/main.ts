// Checks what reading the repository tells: documents, generated pages, imports, licences, alerts, lists.
//
//   npm run check:documents [-- NAME ...]

import { fileURLToPath } from 'node:url';
import { CHECKS } from './checks.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const named = process.argv.slice(2);

for (const name of named.length > 0 ? named : Object.keys(CHECKS)) {
  const check = CHECKS[name] ?? (() => [`there is no such check, but: ${Object.keys(CHECKS)}`]);
  // A check that fails, for what it reads is not there, is a problem too.
  const run = async () => check(ROOT);
  const problems = await run().catch((error: Error) => [String(error.stack)]);
  for (const problem of problems) process.stdout.write(`${name}: ${problem}\n`);
  if (problems.length > 0) process.exitCode = 1;
}
