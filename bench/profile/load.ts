import { randomBytes } from 'node:crypto';
import { measureLatencies } from '../stack/one-device.ts';
import { connectDevices } from '../support/connected-devices.ts';
import type { StackFixture } from '../support/fixture.ts';

const DEVICES = 200;
/** Keeps two cores busy; the load never exceeds what the stack accepts. */
const IN_FLIGHT = 16;

/** One of this many pushes is of that kind; all others go to one connected device. */
const TO_APNS_EVERY = 10;
const SCHEDULED_EVERY = 20;
const TO_TOPIC_EVERY = 50;

/** A load on the services. */
export interface Load {
  /** Sends pushes until `until` settles, and returns its value. @throws when a push is refused */
  during<T>(until: Promise<T>): Promise<T>;
  /** Milliseconds from the due time of each push to its PUBACK, in the last `during`; none of a mixed load. */
  latenciesMs(): readonly number[];
  /** Closes the devices' connections. */
  close(): void;
}

/**
 * Starts a mixed load on every service: connects devices, registers an iPhone whose pushes the sandbox
 * accepts, and creates a topic.
 */
export async function startMixedLoad(scene: StackFixture): Promise<Load> {
  const devices = await connectDevices(scene, DEVICES);
  const topic = await scene.audience.subscribe('profile', devices.tokens);
  const iphone = await registerIphone(scene.stack.dev);
  let sent = 0;

  async function sendOne(): Promise<void> {
    const n = sent;
    sent += 1;
    const mark = String(n);
    const to = devices.tokens[n % DEVICES] ?? '';
    if (n % TO_TOPIC_EVERY === 2) await scene.push(topic, { data: { mark } });
    else if (n % TO_APNS_EVERY === 1) await scene.push(iphone, { data: { mark } });
    else if (n % SCHEDULED_EVERY === 0) {
      await scene.push(to, { data: { mark }, schedule: Math.ceil(Date.now() / 1_000) + 1 });
    } else await scene.push(to, { data: { mark } });
  }

  return createLoad(devices.close, async (isOver) => {
    const send = async () => {
      while (!isOver()) await sendOne();
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, send));
    return [];
  });
}

/** Starts single pushes to connected devices at a constant rate, whether or not earlier ones have arrived. */
export async function startSinglePushes(scene: StackFixture, perSecond: number): Promise<Load> {
  const devices = await connectDevices(scene, DEVICES);
  return createLoad(devices.close, (isOver) =>
    measureLatencies(scene, devices, perSecond, Number.MAX_SAFE_INTEGER, isOver),
  );
}

function createLoad(close: () => void, send: (isOver: () => boolean) => Promise<number[]>): Load {
  let latenciesMs: readonly number[] = [];
  return {
    async during(until) {
      let isOver = false;
      const over = until.finally(() => {
        isOver = true;
      });
      const [value, measured] = await Promise.all([over, send(() => isOver)]);
      latenciesMs = measured;
      return value;
    },
    latenciesMs: () => latenciesMs,
    close,
  };
}

async function registerIphone({
  api,
  app,
  sandbox,
}: StackFixture['stack']['dev']): Promise<string> {
  const response = await fetch(new URL('/credentials', sandbox));
  const { apns } = (await response.json()) as { apns: { bundle: string } };
  const registered = await fetch(new URL('/register', api), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      appId: app,
      platform: 'ios',
      pushToken: randomBytes(32).toString('hex'),
      pushEnvironment: 'development',
      pushBundle: apns.bundle,
    }),
  });
  return ((await registered.json()) as { token: string }).token;
}
