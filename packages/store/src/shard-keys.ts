/** Key by which a sharded cluster divides a collection. */
export interface ShardKey {
  field: '_id' | 'push';
  /** `hashed`: values that grow with time are spread. `ranged`: documents with the same beginning stay together. */
  kind: 'hashed' | 'ranged';
  /** Reason for this key, and the distribution of new documents over the shards. */
  reason: string;
}

/**
 * The shard keys of the collections that grow with devices and pushes. Each value of a key belongs to one shard, and a unique
 * index holds on one shard only: so everything that must be unique is the key itself, or decides it.
 */
export const SHARD_KEYS: Readonly<Record<string, ShardKey>> = {
  pushes: {
    field: '_id',
    kind: 'hashed',
    reason:
      'Every step of a delivery names the push. Its id begins with the time; the hash spreads the pushes of one moment.',
  },
  batches: {
    field: 'push',
    kind: 'hashed',
    reason:
      'The batches of a push are released, closed and removed together, and read in order. Different pushes are on different shards; the id of a batch begins with that of its push, so it stays unique.',
  },
  inbox: {
    field: '_id',
    kind: 'ranged',
    reason:
      'The id begins with the device token, which is random: rows are spread by device, whatever their time, and the inbox of a device is one range on one shard.',
  },
  idempotency_keys: {
    field: '_id',
    kind: 'hashed',
    reason: 'A key is found and reserved by app and key, which is the id: it is unique.',
  },
  devices: {
    field: '_id',
    kind: 'hashed',
    reason:
      'Devices are read by their tokens, up to a thousand at once. Tokens of imported devices may begin alike; the hash spreads them.',
  },
  addresses: {
    field: '_id',
    kind: 'hashed',
    reason:
      'The devices of a provider address are listed by app and address, which is the id: it is unique.',
  },
  subscriptions: {
    field: '_id',
    kind: 'ranged',
    reason:
      'The id is app, topic and token: a page of a topic is one range, and a large topic is split between tokens.',
  },
  topics: {
    field: '_id',
    kind: 'hashed',
    reason: 'Counters are read and changed by app and name, which is the id: a name is unique.',
  },
};

/** The collections that stay together on one shard, with the reason. */
export const UNSHARDED: Readonly<Record<string, string>> = {
  accounts: 'small; joined with apps and keys',
  apps: 'small; unique bundle ids and host names',
  keys: 'small; unique digests, joined with apps and accounts',
  credentials: 'small; joined with apps',
  webhooks: 'small; unique slots, kept in memory by the services',
  box_keys: 'one document',
  redrives: 'small; one that runs for each app is unique',
  operators: 'small; unique names',
  sessions: 'small; joined with operators',
  invites: 'small',
  audit: 'written by operators only; joined with itself',
  anchors: 'small; removed after ten minutes',
  full: 'short: the devices whose inbox is full',
  schema: 'one document',
  proxy_warnings: 'one document for each kind',
  presence_reports:
    'one document for each list of presence servers, and for each shard of presence',
};
