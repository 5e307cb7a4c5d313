import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { OUTCOMES } from '../../packages/core/src/outcomes.ts';
import type { Batch } from '../../packages/store/src/documents.ts';
import { readExport } from './collect.ts';
import { describeStored } from './read-stored.ts';

test('an export that was refused, cut or without its last row is read again; one that the API does not show is empty', async () => {
  const responses: [status: number, text: string][] = [
    [429, '{}'],
    [200, '{"id":"a"}\n{"id":'],
    [200, '{"id":"a"}\n'],
    [200, '{"id":"a"}\n{"id":"ä"}\n{"complete":true}\n'],
    [200, '{"id":"a"}\n{"complete":false}\n'],
    [404, '{}'],
  ];
  const server = createServer((_request, response) => {
    const [status, text] = responses.shift() ?? [500, ''];
    response.writeHead(status).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const api = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const readIds = async () =>
    (await readExport<{ id: string }>({ api, apiKey: '' }, '/')).map(({ id }) => id);
  expect(await readIds()).toEqual(['a', 'ä']);
  expect(await readIds()).toEqual(['a']);
  expect(await readIds()).toEqual([]);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/** A closed batch whose recipients have these outcomes. */
const batchOf = (outcomes: Record<string, number>, fields: Partial<Batch> = {}): Batch => ({
  ...{ state: 'closed', channel: 'mqtt', at: new Date(0), tries: 1 },
  ...{ n: Object.keys(outcomes).length, tokens: Object.keys(outcomes).join(' ') },
  outcomes: new Binary(Buffer.from(Object.values(outcomes))),
  ...fields,
});

test('a stored push is described by its batch or its batches', () => {
  const work = batchOf({ a: OUTCOMES.delivered, b: OUTCOMES.expired });
  const counts = { delivered: 1, expired: 1 };
  const described = { counts, recipients: { a: 'delivered', b: 'expired' } };
  expect(describeStored({ counts, work }, [], ['a', 'b'])).toEqual(described);
  const batches = [{ a: OUTCOMES.delivered }, { b: OUTCOMES.expired }].map((outcomes) => ({
    work: batchOf(outcomes),
  }));
  expect(describeStored({ counts }, batches, ['a', 'b'])).toEqual(described);
  // A receipt that came after the settlement, and a recipient that is in no batch.
  const late = batchOf({ a: OUTCOMES.inbox }, { got: { 0: 1 } });
  const other = describeStored({ counts: { delivered: 1 }, work: late }, [], ['a', 'c']);
  expect(other?.recipients).toEqual({ a: 'delivered', c: 'none' });
});

test('a stored push that is open, has an inbox row or is soon removed is not described by its documents', () => {
  const work = batchOf({ a: OUTCOMES.delivered });
  const counts = { delivered: 1 };
  const describe = (fields: Parameters<typeof describeStored>[0]) =>
    describeStored(fields, [], ['a']);
  expect(describe({ counts, work, purgeAt: new Date(Date.now() + 3_600_000) })).toBeDefined();
  expect(describe({ work })).toBeUndefined();
  expect(describe({ counts, work: batchOf({ a: OUTCOMES.inbox }) })).toBeUndefined();
  expect(describe({ counts, work, purgeAt: new Date() })).toBeUndefined();
});
