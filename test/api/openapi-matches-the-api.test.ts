import { beforeAll, describe, expect, test } from '@jest/globals';
import { API_ERRORS } from '../../packages/core/src/api-error.ts';
import { OPERATIONS } from '../../services/api/src/reference/document.ts';
import { callWithoutKey } from '../support/api/keyless-calls.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

/** The endpoints of the specification (section 4), of the compatibility page, of docs/use/outcomes.md and docs/use/export-and-import.md. */
const ENDPOINTS = `
  POST /push, GET /pushes/{push_id}, DELETE /pushes/{push_id}, GET /pushes,
  GET /pushes/{push_id}/outcomes, GET /pushes/{push_id}/recipients,
  GET /pushes/{push_id}/recipients/{device_token}, GET /export/devices,
  GET /export/subscriptions, GET /export/pushes, GET /export/recipients,
  GET /devices/{device_token}, DELETE /devices/{device_token}, GET /devices/{device_token}/pushes,
  POST /devices/presence,
  POST /topics/subscribe, POST /topics/unsubscribe, GET /topics, GET /topics/{topic},
  GET /webhooks, POST /webhooks, PATCH /webhooks/{webhook_id}, DELETE /webhooks/{webhook_id},
  POST /webhooks/{webhook_id}/rotate, POST /webhooks/{webhook_id}/test,
  POST /webhooks/{webhook_id}/replay, POST /webhooks/{webhook_id}/off,
  POST /webhooks/{webhook_id}/on, POST /register, GET /web-push/public-key, POST /devices/auth,
  POST /devices/token, POST /devices/subscribe, POST /devices/unsubscribe`
  .split(',')
  .map((endpoint) => endpoint.trim());

/** The part of an OpenAPI document that is checked. */
interface Document {
  openapi: string;
  servers: { url: string }[];
  paths: Record<string, Record<string, { responses: Record<string, DescribedResponse> }>>;
  components: { schemas: { Push: { properties: Record<string, FieldSchema> } } };
}
/** JSON schema of a field; `anyOf` has null besides. */
interface FieldSchema {
  type?: string | string[];
  properties?: Record<string, FieldSchema>;
  additionalProperties?: unknown;
  anyOf?: FieldSchema[];
  enum?: unknown[];
}
interface DescribedResponse {
  content: { 'application/json': { examples?: Record<string, { value: unknown }> } };
}

let stack: SharedStack;
beforeAll(async () => {
  stack = await useSharedStack();
});

const readDocument = async () =>
  (await callWithoutKey<Document>(stack.dev.api, '/openapi.json')).json;

describe('/openapi.json', () => {
  test('describes every endpoint and nothing else', async () => {
    const { openapi, paths } = await readDocument();
    expect(openapi).toMatch(/^3\.1\./);
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(described.sort()).toEqual([...ENDPOINTS].sort());
  });

  test('names the address of the request', async () => {
    expect((await readDocument()).servers).toEqual([{ url: new URL(stack.dev.api).origin }]);
  });

  test('has nothing that client generators reject', async () => {
    // A tuple ends openapi-python-client, a default makes openapi-typescript take the field for a required one.
    expect(JSON.stringify(await readDocument())).not.toMatch(/"(?:prefixItems|default)":/);
  });

  test('describes nothing that does not exist', async () => {
    for (const [path, methods] of Object.entries((await readDocument()).paths)) {
      for (const method of Object.keys(methods)) {
        const { status } = await callWithoutKey(stack.dev.api, path, {
          method: method.toUpperCase(),
        });
        expect({ path, isThere: status !== 404 && status !== 405 }).toEqual({
          path,
          isThere: true,
        });
      }
    }
  });

  test('has every error of an endpoint with an example of each', async () => {
    const { paths } = await readDocument();
    const examples = Object.values(paths)
      .flatMap((methods) => Object.values(methods))
      .flatMap(({ responses }) => Object.entries(responses))
      .filter(([status]) => status !== '200')
      .flatMap(([status, { content }]) =>
        Object.entries(content['application/json'].examples ?? {}).map(([code, example]) => [
          code,
          Number(status),
          example.value,
        ]),
      );
    for (const [code, status, value] of examples) {
      const [expected, error] = API_ERRORS[code as keyof typeof API_ERRORS];
      expect([status, value]).toEqual([expected, { code, error }]);
    }
    const specified = Object.keys(API_ERRORS).filter((code) => !COMMON_CODES.includes(code));
    expect([...new Set(examples.map(([code]) => code))].sort()).toEqual(specified.sort());
  });

  test.each(['apns', 'fcm', 'web_push'])('names the fields that %s may have', async (name) => {
    const { Push } = (await readDocument()).components.schemas;
    const described = [...listObjects(name, Push.properties[name] ?? {})];
    expect(described.length).toBeGreaterThan(4);
    const { token } = await registerDevice(stack.dev);
    const refused = [];
    for (const fields of described) {
      const { status, json } = await stack.api('POST', '/push', { to: token, data: {}, ...fields });
      if (status !== 200) refused.push([json.error, fields]);
    }
    expect(refused).toEqual([]);
    const other = { to: token, data: {}, [name]: { other: {} } };
    const error = expect.stringContaining(`${name}.other`);
    expect(await stack.api('POST', '/push', other)).toMatchObject({ status: 400, json: { error } });
  });

  test.each(OPERATIONS)('the examples of $id are valid', ({ request, response }) => {
    if (request !== undefined)
      expect(request.schema.safeParse(request.example).error).toBeUndefined();
    expect(response.schema.safeParse(response.example).error).toBeUndefined();
  });
});

/** Lists objects that a schema describes, each with one field alone, for all values of it that the schema names. */
function* listObjects(name: string, schema: FieldSchema): Generator<Record<string, unknown>> {
  const { properties, anyOf = [schema] } = schema;
  for (const [inner, field] of Object.entries(properties ?? {}))
    for (const object of listObjects(inner, field)) yield { [name]: object };
  if (properties !== undefined) return;
  for (const { type, enum: values = [EXAMPLES[String(type)]] } of anyOf)
    for (const value of values) yield { [name]: value };
}
const EXAMPLES: Record<string, unknown> = { null: null, object: {}, integer: 1, string: 'a' };

/** Of requests that reach no endpoint. */
const COMMON_CODES = ['NOT_FOUND', 'METHOD_NOT_ALLOWED', 'HEADERS_TOO_LARGE'];

describe('/docs', () => {
  test('needs no other host and runs no script', async () => {
    const page = await fetch(new URL('/docs', stack.dev.api));
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    const html = await page.text();
    expect(html).not.toMatch(/<script|\son\w+=|\sstyle=|(?:src|href)="(?!#|\/)/);
    const style = await fetch(new URL('/docs/style.css', stack.dev.api));
    expect(style.headers.get('content-type')).toMatch(/^text\/css/);
    expect(await style.text()).not.toMatch(/url\(|@import/);
  });

  test('shows every endpoint and every error', async () => {
    const html = await (await fetch(new URL('/docs', stack.dev.api))).text();
    for (const { path, summary } of OPERATIONS) {
      expect(html).toContain(`<code>${path}</code>`);
      expect(html).toContain(`<h2>${summary}</h2>`);
    }
    for (const code of Object.keys(API_ERRORS)) expect(html).toContain(`id="${code}"`);
    expect(html).toContain('<code>fcm.<wbr>apns.<wbr>headers.<wbr>apns-collapse-id</code>');
  });
});
