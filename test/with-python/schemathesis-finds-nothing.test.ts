import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ONLY_API } from '../support/api/only-api.ts';
import { storeWebhookKey } from '../support/api/webhook-key.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import type { Stack } from '../support/stack.ts';
import { installPythonPackage, runPython } from '../support/with-python/python.ts';

const EXAMPLES = 100;
/** A schema can't express that some valid requests name a resource that does not exist, which is rejected too. */
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
  'negative_data_rejection',
];

/** It takes 413 for an acceptance unless configured. */
const SETTINGS = `[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 413]
`;

let stack: Stack;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'carillon-schemathesis-'));
  await writeFile(join(folder, 'schemathesis.toml'), SETTINGS);
  await installPythonPackage(folder, 'schemathesis==4.32.5');
  stack = await startStackWithoutLimits(ONLY_API);
  await storeWebhookKey(stack);
}, 360_000);
afterAll(async () => {
  await stack?.stop();
  await rm(folder, { recursive: true, force: true });
});

test('every response matches the OpenAPI document', async () => {
  const { api, apiKey } = stack.dev;
  const args = [
    ...['-m', 'schemathesis.cli', 'run', `${api}/openapi.json`, '--checks', CHECKS.join(',')],
    ...['-H', `Authorization: Bearer ${apiKey}`, '--max-examples', `${EXAMPLES}`],
    ...['--phases', 'examples,coverage,fuzzing', '--continue-on-failure'],
    ...['--suppress-health-check', 'all'],
    // It would make up keys besides the good one.
    ...['--generation-with-security-parameters', 'false'],
  ];
  const { code, output } = await runPython(args, { cwd: folder, env: { PYTHONPATH: folder } });
  expect({ code, ...(code !== 0 && { output: output.slice(-6_000) }) }).toEqual({ code: 0 });
}, 600_000);
