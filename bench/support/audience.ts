import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Db } from 'mongodb';
import { deviceAuth, parseDeviceAuthKeys } from '../../packages/core/src/device-auth.ts';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import type {
  DeviceDocument,
  SubscriptionDocument,
  TopicDocument,
} from '../../packages/store/src/documents.ts';
import type { Identity } from './lean-device.ts';
import type { Stack } from './stack.ts';

const DOCUMENTS_PER_INSERT = 10_000;
/** Nothing of this is a debt; waiting for the journal would only take longer. */
const UNORDERED = { ordered: false, writeConcern: { w: 1, journal: false } } as const;

/** Registered devices of the stack's app, written straight into the database. */
export interface Audience {
  /** So many more devices. */
  register(count: number): Promise<string[]>;
  /** Subscribes devices to a new topic, counters included; gives what a push names it by. */
  subscribe(topic: string, tokens: readonly string[]): Promise<string>;
  /** What a device connects with. */
  identify(token: string): Identity;
}

/** Through the API so many would take minutes. */
export function createAudience({ dev, home }: Stack, mongo: Db): Audience {
  const devices = mongo.collection<DeviceDocument>('devices');
  const subscriptions = mongo.collection<SubscriptionDocument>('subscriptions');
  const secrets = JSON.parse(readFileSync(join(home, 'secrets.json'), 'utf8')) as {
    deviceAuthKeys: string;
  };
  const keys = parseDeviceAuthKeys(secrets.deviceAuthKeys);
  const { app } = dev;
  return {
    async register(count) {
      const tokens = Array.from({ length: count }, newDeviceToken);
      const now = new Date();
      const common = { app, platform: 'electron', registeredAt: now, lastActiveAt: now } as const;
      await inPieces(tokens, (some) =>
        devices.insertMany(
          some.map((_id): DeviceDocument => ({ _id, ...common })),
          UNORDERED,
        ),
      );
      return tokens;
    },
    async subscribe(topic, tokens) {
      const since = new Date();
      await inPieces(tokens, (some) =>
        subscriptions.insertMany(
          some.map((token): SubscriptionDocument => {
            const _id = `${app}:${topic}:${token}`;
            return { _id, token, platform: 'electron', since };
          }),
          UNORDERED,
        ),
      );
      const counter = { _id: `${app}:${topic}`, n: { electron: tokens.length }, v: 1 };
      await mongo.collection<TopicDocument>('topics').insertOne(counter);
      return `/topics/${topic}`;
    },
    identify: (token) => ({ token, auth: deviceAuth(keys, token) }),
  };
}

async function inPieces(
  tokens: readonly string[],
  insert: (some: readonly string[]) => Promise<unknown>,
): Promise<void> {
  for (let from = 0; from < tokens.length; from += DOCUMENTS_PER_INSERT) {
    await insert(tokens.slice(from, from + DOCUMENTS_PER_INSERT));
  }
}
