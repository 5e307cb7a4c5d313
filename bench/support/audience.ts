import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Db } from 'mongodb';
import { createDeviceAuth, parseDeviceAuthKeys } from '../../packages/core/src/device-auth.ts';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import type {
  DeviceDocument,
  SubscriptionDocument,
  TopicDocument,
} from '../../packages/store/src/documents.ts';
import type { DeviceCredentials } from './bench-device.ts';
import type { Stack } from './stack.ts';

const DOCUMENTS_PER_INSERT = 10_000;
/** Of a device token of Apple. */
const PROVIDER_TOKEN_BYTES = 32;
/** Test data needs no durability, so the writes do not wait for the journal. */
const UNORDERED = { ordered: false, writeConcern: { w: 1, journal: false } } as const;

/** Registered devices of the stack's app, written directly to the database. */
export interface Audience {
  /** Adds devices. */
  register(count: number): Promise<string[]>;
  /** Adds iPhones, which are reached over APNs. */
  registerPhones(
    count: number,
    bundle: string,
  ): Promise<{ tokens: string[]; providerTokens: string[] }>;
  /** Subscribes devices to a new topic, including its counters. @returns the topic's address for a push */
  subscribe(topic: string, tokens: readonly string[]): Promise<string>;
  /** Returns the credentials of a device. */
  credentialsOf(token: string): DeviceCredentials;
}

/** Creates the audience. Registering so many devices over the API would take minutes. */
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
      await insertInChunks(tokens, (chunk) =>
        devices.insertMany(
          chunk.map((_id): DeviceDocument => ({ _id, ...common })),
          UNORDERED,
        ),
      );
      return tokens;
    },
    async registerPhones(count, bundle) {
      const since = new Date();
      const times = { registeredAt: since, lastActiveAt: since };
      const apns = { channel: 'apns', environment: 'development', bundle, since } as const;
      const phones = Array.from({ length: count }, (): DeviceDocument => {
        const address = randomBytes(PROVIDER_TOKEN_BYTES).toString('hex');
        const provider = { ...apns, address };
        return { _id: newDeviceToken(), app, platform: 'ios', ...times, provider };
      });
      await devices.insertMany(phones, UNORDERED);
      return {
        tokens: phones.map(({ _id }) => _id),
        providerTokens: phones.map(({ provider }) => provider?.address as string),
      };
    },
    async subscribe(topic, tokens) {
      const since = new Date();
      await insertInChunks(tokens, (chunk) =>
        subscriptions.insertMany(
          chunk.map((token): SubscriptionDocument => {
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
    credentialsOf: (token) => ({ token, auth: createDeviceAuth(keys, token) }),
  };
}

async function insertInChunks(
  tokens: readonly string[],
  insert: (chunk: readonly string[]) => Promise<unknown>,
): Promise<void> {
  for (let from = 0; from < tokens.length; from += DOCUMENTS_PER_INSERT) {
    await insert(tokens.slice(from, from + DOCUMENTS_PER_INSERT));
  }
}
