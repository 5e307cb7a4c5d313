import { readFileSync } from 'node:fs';
import { providerWindowOf } from '../packages/core/src/channels.ts';
import { LIMITS } from '../packages/core/src/limits.ts';
import { WEBHOOK_LIMITS } from '../packages/core/src/webhooks.ts';

const ROOT = new URL('../', import.meta.url);
const API = 'services/api/src';
const GATEWAY = 'services/device-gateway/src';
const CHANNELS = 'services/delivery-worker/src/channels';

const INTRODUCTION = `<!-- Written by \`npm run docs:settings\` from the constants of the code; change those. -->

# Limits

\`carillon account limit\` changes limits marked *account*, \`carillon app set\` those marked *app*. \`ADDRESS_LIMITS=off\` disables
the limits of an address, and of MQTT connects of a device. Further limits, for each process, are [settings](../run/settings.md)
(\`BODY_MEMORY_MB\`, \`MAX_CONNECTIONS\`, \`MAX_WAITING_BYTES\`). How all work
together: [security.md](../run/security.md).
`;

/** What is limited, the limit, and what happens above it. */
type Row = readonly [string, string, string];

function contentRows(): Row[] {
  const timeToLive = `${days(LIMITS.timeToLiveMax)}; default ${days(LIMITS.timeToLiveDefault)}`;
  return [
    ['device tokens of a push, with repeats', count(LIMITS.tokensPerPush), '400'],
    ['topics of a push, with any number of subscribers', count(LIMITS.topicsPerPush), '400'],
    [
      'characters of `data` as JSON; levels of nesting',
      `${count(LIMITS.payloadCharacters)} (*app*); ${count(LIMITS.payloadDepth)}`,
      '400',
    ],
    [
      'the same for each of `apns`, `fcm`, `web_push`',
      `${count(LIMITS.providerFieldCharacters)}; ${count(LIMITS.providerFieldDepth)}`,
      '400',
    ],
    ['`time_to_live`', timeToLive, '400'],
    ['characters of `collapse_key`', count(LIMITS.collapseKeyCharacters), '400'],
    ['tokens of a request for presence', count(LIMITS.tokensPerPresence), '400'],
    ['topics of a request to subscribe', count(LIMITS.topicsPerSubscribe), '400'],
    ['`expires_in` of an iOS device', days(LIMITS.deviceLifetimeSeconds), '400'],
    ['topics of a device', count(LIMITS.topicsPerDevice), '400'],
    ['subscribers on a page', count(LIMITS.subscribersPerPage), 'a further page'],
    ['tokens in `pending_devices`', count(LIMITS.pendingDevices), 'others are not listed'],
    // Inboxes are counted by sample: a device to which many senders push at once gets some more.
    [
      'pushes in the inbox of a device, counted by sample',
      `about ${count(LIMITS.pendingPerDevice)}`,
      '`inbox-full`',
    ],
    ['webhooks of an app', count(WEBHOOK_LIMITS.perApp), '400'],
    [
      'events of a request to a webhook',
      count(WEBHOOK_LIMITS.eventsPerRequest),
      'a further request',
    ],
    [
      'exports of an app in progress',
      count(read(`${API}/export/routes.ts`, 'EXPORTS_PER_APP')),
      '429',
    ],
  ];
}

function rateRows(): Row[] {
  const { trial, pro } = LIMITS.requestsPerMinute;
  const perMinute = (limit: number) => `${count(limit)} a minute`;
  const perHour = (limit: number) => `${count(limit)} an hour`;
  const connects = read(`${GATEWAY}/address-limits.ts`, 'CONNECTS_PER_MINUTE');
  const takeovers = read(`${GATEWAY}/address-limits.ts`, 'TAKEOVERS_PER_MINUTE');
  const connections = read(`${GATEWAY}/address-limits.ts`, 'CONNECTIONS_PER_MINUTE');
  return [
    [
      'requests of an account',
      `${perMinute(pro)} (plan pro), ${count(trial)} (trial); *account*`,
      '429',
    ],
    ['wrong API keys from an address', perHour(LIMITS.wrongKeysPerHour), '403, throttled lookups'],
    ['new devices from an address', perHour(LIMITS.registrationsPerAddressHour), '429'],
    ['new devices of an app', `${perHour(LIMITS.registrationsPerAppHour)} (*app*)`, '429'],
    [
      'topic changes by a device; by devices of an address',
      `${count(LIMITS.topicChangesPerDeviceMinute)}; ${perMinute(LIMITS.topicChangesPerAddressMinute)}`,
      '429',
    ],
    [
      'MQTT connects of a device; those that replace an open connection',
      `${count(connects)}; ${perMinute(takeovers)}`,
      'CONNACK 3',
    ],
    ['MQTT connections from an address', perMinute(connections), 'after those of others'],
  ];
}

function requestRows(): Row[] {
  const body = (path: string, name: string) => bytes(read(`${API}/${path}`, name));
  const server = (name: string) => time(read(`${API}/http/server.ts`, name));
  return [
    ['body of `POST /push`', body('push/routes.ts', 'PUSH_BODY_BYTES'), '413'],
    [
      'body of a request about topics; for presence',
      `${body('topics/routes.ts', 'BODY_BYTES')}; ${body('devices/routes.ts', 'PRESENCE_BODY_BYTES')}`,
      '413',
    ],
    [
      'body of a request about webhooks; of a device',
      `${body('webhooks/routes.ts', 'BODY_BYTES')}; ${body('http/routing.ts', 'MAX_DEVICE_BODY_BYTES')}`,
      '413',
    ],
    [
      'time for the headers; for the whole request',
      `${server('HEADERS_TIMEOUT_MS')}; ${server('REQUEST_TIMEOUT_MS')}`,
      '408',
    ],
    [
      'pipelined requests of a connection: handled; waiting',
      `${link('MAX_HANDLED')}; ${link('MAX_WAITING_REQUESTS')}`,
      'closed',
    ],
    ['response that the client does not read', time(link('UNREAD_TIMEOUT_MS')), 'closed'],
  ];
}

function deviceRows(): Row[] {
  const gateway = (path: string, name: string) => read(`${GATEWAY}/${path}`, name);
  const keepAlive = ['KEEPALIVE_MIN_SECONDS', 'KEEPALIVE_MAX_SECONDS'].map((name) =>
    count(gateway('authenticate.ts', name)),
  );
  const wait = gateway('address-limits.ts', 'MAX_DELAY_MS');
  const progress = gateway('connection-reaper.ts', 'PROGRESS_TIMEOUT_MS');
  const control = gateway('session.ts', 'MAX_CONTROL_PACKETS_PER_SECOND');
  return [
    [
      'time to CONNECT, handshakes included',
      time(gateway('pending-connections.ts', 'CONNECT_TIMEOUT_MS')),
      'closed',
    ],
    [
      'length of a packet to the gateway',
      bytes(gateway('frames.ts', 'MAX_PACKET_BYTES')),
      'closed',
    ],
    ['keepalive', `${keepAlive.join(' to ')} s`, 'the nearest of these'],
    ['time without a packet', 'one and a half keepalives', 'closed'],
    [
      'pushes without a PUBACK',
      count(gateway('connection.ts', 'MAX_IN_FLIGHT')),
      'the others wait',
    ],
    ['time to a PUBACK, or for the socket to take bytes', time(progress), 'closed'],
    ['pings, subscriptions, unknown PUBACKs', `${count(control)} a second`, 'closed'],
    [
      'bytes buffered for a device',
      bytes(gateway('connection.ts', 'MAX_BUFFERED_BYTES')),
      'pushes go to the inbox',
    ],
    [
      'bytes buffered with all responses',
      bytes(gateway('session.ts', 'MAX_WRITE_BUFFER_BYTES')),
      'closed',
    ],
    [
      'wrong credentials from an address',
      count(gateway('address-limits.ts', 'FREE_AUTH_FAILURES')),
      `delays of up to ${time(wait)}`,
    ],
    [
      'failed lookups of an address (imported devices)',
      `${count(gateway('address-limits.ts', 'LOOKUP_BURST'))}, ${count(gateway('address-limits.ts', 'LOOKUPS_PER_SECOND'))} more a second`,
      'CONNACK 3',
    ],
    [
      'connections of an address before CONNECT',
      count(gateway('address-limits.ts', 'MAX_PENDING_PER_ADDRESS')),
      'one of them is evicted',
    ],
    ['wait of a new connection', time(gateway('accept-throttle.ts', 'MAX_WAIT_MS')), 'closed'],
  ];
}

function providerTable(): string {
  const of = (channel: string, name: string) => read(`${CHANNELS}/${channel}`, name);
  return table(
    ['', 'APNs', 'FCM', 'Web Push'],
    [
      [
        'size of what is sent, before encryption',
        bytes(of('apns/payload.ts', 'MAX_PAYLOAD_BYTES')),
        bytes(of('fcm/payload.ts', 'MAX_DATA_BYTES')),
        bytes(of('web-push/payload.ts', 'MAX_PLAINTEXT_BYTES')),
      ],
      [
        'time to live',
        days(of('apns/payload.ts', 'MAX_TTL_SECONDS')),
        days(of('fcm/payload.ts', 'MAX_TTL_MS') / 1_000),
        days(of('web-push/payload.ts', 'MAX_TTL_SECONDS')),
      ],
      [
        'requests in flight of a worker',
        `${providerWindowOf('apns')} to each environment`,
        `${providerWindowOf('fcm')}`,
        `${providerWindowOf('web-push')} to each push service`,
      ],
      [
        'time for a response',
        time(of('apns/client.ts', 'DEADLINE_MS')),
        time(of('fcm/client.ts', 'DEADLINE_MS')),
        time(of('web-push/http-client.ts', 'DEADLINE_MS')),
      ],
    ],
  );
}

/** Renders docs/use/limits.md. */
export function renderLimitsPage(): string {
  const section = (title: string, rows: readonly Row[]) =>
    `## ${title}\n\n${table(['', 'limit', 'above it'], rows)}\n`;
  return [
    INTRODUCTION,
    section('Pushes, topics, webhooks', contentRows()),
    section('Rates', rateRows()),
    section('Requests', requestRows()),
    section('MQTT connections', deviceRows()),
    `## Providers\n\n${providerTable()}\n`,
  ].join('\n');
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${head.map((_, n) => cells[n] ?? '').join(' | ')} |`;
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n');
}

function link(name: string): number {
  return read('packages/runtime/src/link-limits.ts', name);
}

/** Reads a constant that is a number or a product of numbers. */
function read(path: string, name: string): number {
  const source = readFileSync(new URL(path, ROOT), 'utf8');
  const value = new RegExp(`^(?:export )?const ${name} = ([\\d_* ]+);$`, 'm').exec(source)?.[1];
  if (value === undefined) throw new Error(`${path} has no number ${name}`);
  return value
    .replaceAll('_', '')
    .split('*')
    .reduce((product, factor) => product * Number(factor), 1);
}

function count(number: number): string {
  return number.toLocaleString('en');
}

function bytes(number: number): string {
  const units = [
    [1_024 * 1_024, 'MB'],
    [1_024, 'KB'],
  ] as const;
  const unit = units.find(([size]) => number % size === 0 && number >= 8 * size);
  return unit === undefined ? `${count(number)} bytes` : `${count(number / unit[0])} ${unit[1]}`;
}

function time(milliseconds: number): string {
  return `${count(milliseconds / 1_000)} s`;
}

function days(seconds: number): string {
  return `${count(seconds / 86_400)} days`;
}
