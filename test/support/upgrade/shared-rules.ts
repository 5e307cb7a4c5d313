import { randomUUID } from 'node:crypto';
import { expect } from '@jest/globals';
import type { Store } from '../../../packages/store/src/store.ts';
import { pushWithIdempotencyKey } from '../guarantees/push-with-key.ts';
import { registerIphone } from '../providers/devices.ts';
import { registerDevice } from '../register-device.ts';

/** An app and the API process that gets its requests. */
interface AppAddress {
  app: string;
  apiKey: string;
  api: string;
}

/** Checks that a push which one process accepts is repeated by another one, and by itself. */
export async function checkIdempotencyKey(first: AppAddress, second: AppAddress): Promise<void> {
  const { token } = await registerDevice(first);
  const key = randomUUID();
  const body = JSON.stringify({ to: token, data: { key } });
  const accepted = await pushWithIdempotencyKey(first, key, body);
  expect(accepted.status).toBe(200);
  for (const process of [second, first]) {
    expect((await pushWithIdempotencyKey(process, key, body)).text).toBe(accepted.text);
  }
}

/** Checks that a device which is registered at one process is replaced by one with its address at another process. */
export async function checkProviderAddress(
  store: Store,
  first: AppAddress,
  second: AppAddress,
): Promise<void> {
  let holder = await registerIphone(first);
  for (const process of [second, first]) {
    const next = await registerIphone(process, { pushToken: holder.address });
    const previous = await store.devices.find(holder.token);
    expect([previous?.deletedAt, previous?.provider]).toEqual([expect.any(Date), undefined]);
    holder = next;
  }
  expect((await store.devices.find(holder.token))?.provider?.address).toBe(holder.address);
}
