import { randomBytes } from 'node:crypto';
import type {
  Attempt,
  ProviderPush,
  Send,
} from '../../services/delivery-worker/src/deliver/provider.ts';

/** Messages in flight: the recipients of a batch. */
const BATCH_SIZE = 1_000;
const DEVICES = 1_000;

/** A push of typical size with the common options. */
export const PUSH: ProviderPush = {
  id: '0123456789abcdef01234567',
  data: JSON.stringify({
    message: 'x'.repeat(200),
    order: 1_234_567,
    url: 'https://example.com/1',
  }),
  options: { notification: { title: 'Your order', body: 'It is on its way.', badge: 1 } },
  expiresAt: new Date(Date.now() + 86_400_000),
  nowOnly: false,
};

/** Creates addresses with the length of the provider's. */
function makeAddresses(make: () => string): (index: number) => string {
  const all = Array.from({ length: DEVICES }, make);
  return (index) => all[index % all.length] ?? '';
}

/** Addresses in the format of APNs. */
export const appleTokens = () => makeAddresses(() => randomBytes(32).toString('hex'));

/** Addresses in the format of FCM: about 152 characters. */
export const fcmTokens = () => makeAddresses(() => randomBytes(114).toString('base64url'));

/** Sends messages with a bounded number in flight. */
export async function sendConcurrently(
  count: number,
  window: number,
  send: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  async function sendNext(): Promise<void> {
    while (next < count) {
      const index = next;
      next += 1;
      await send(index);
    }
  }
  await Promise.all(Array.from({ length: window }, sendNext));
}

/** Sends through a channel as the delivery worker does: the payload is encoded once per batch. */
export async function sendInBatches(
  count: number,
  window: number,
  startBatch: () => Send,
  addressOf: (index: number) => Parameters<Send>[0],
): Promise<void> {
  let send = startBatch();
  await sendConcurrently(count, window, async (index) => {
    if (index > 0 && index % BATCH_SIZE === 0) send = startBatch();
    assertSent(await send(addressOf(index)));
  });
}

function assertSent(attempt: Attempt): void {
  if (attempt.kind !== 'sent') throw new Error(`not sent: ${JSON.stringify(attempt)}`);
}
