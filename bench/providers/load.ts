import { randomBytes } from 'node:crypto';
import type {
  Attempt,
  ProviderPush,
  Send,
} from '../../services/delivery-worker/src/deliver/provider.ts';

/** As many recipients as a batch has. */
const BATCH = 1_000;
const DEVICES = 1_000;

/** A push of common size, with what most apps set. */
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

/** Addresses of devices, as long as the provider's. */
function makeAddresses(make: () => string): (index: number) => string {
  const all = Array.from({ length: DEVICES }, make);
  return (index) => all[index % all.length] ?? '';
}

/** Addresses as APNs has them. */
export const appleTokens = () => makeAddresses(() => randomBytes(32).toString('hex'));

/** Addresses as FCM has them: 152 characters or so. */
export const fcmTokens = () => makeAddresses(() => randomBytes(114).toString('base64url'));

/** Sends so many messages, a window of them at a time. */
export async function sendInWindow(
  count: number,
  window: number,
  send: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  async function sendSome(): Promise<void> {
    while (next < count) {
      const index = next;
      next += 1;
      await send(index);
    }
  }
  await Promise.all(Array.from({ length: window }, sendSome));
}

/** Sends through a channel as the driver does: encoded once for each batch. */
export async function sendInBatches(
  count: number,
  window: number,
  begin: () => Send,
  addressOf: (index: number) => Parameters<Send>[0],
): Promise<void> {
  let send = begin();
  await sendInWindow(count, window, async (index) => {
    if (index > 0 && index % BATCH === 0) send = begin();
    mustBeSent(await send(addressOf(index)));
  });
}

function mustBeSent(attempt: Attempt): void {
  if (attempt.kind !== 'sent') throw new Error(`not sent: ${JSON.stringify(attempt)}`);
}
