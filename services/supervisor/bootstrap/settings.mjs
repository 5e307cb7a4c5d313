// The environment of `npm start`: the one place that reads it.

import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { ROOT } from './places.mjs';
import { Refusal } from './say.mjs';

const DEFAULT_BASE = 4000;
const LAST_OFFSET = 99;
const LAST_PORT = 65_535;
const MOST_PROCESSES = 20;

/** Each port of a stack as an offset from CARILLON_PORT_BASE. */
const OFFSETS = {
  api: 0,
  mqtt: 1,
  mqtts: 2,
  ws: 3,
  sandbox: 4,
  redis: 5,
  mongodb: 6,
  sandboxApns: 7,
  sandboxFcm: 8,
  sandboxWebPush: 9,
  console: 10,
};

/** Without a base, what devices connect to has the ports that MQTT is known by. */
const DEFAULT_PORTS = { mqtt: 1883, mqtts: 8883, ws: 8083 };

/**
 * The services: which variable says how many of each there are (one where there is none), and where the
 * ops ports of each kind begin.
 */
const SERVICES = [
  { service: 'sandbox', opsOffset: 11 },
  { service: 'api', count: 'CARILLON_APIS', opsOffset: 20 },
  { service: 'delivery-worker', count: 'CARILLON_DELIVERY_WORKERS', opsOffset: 40 },
  { service: 'scheduler', count: 'CARILLON_SCHEDULERS', opsOffset: 60 },
  { service: 'device-gateway', count: 'CARILLON_DEVICE_GATEWAYS', opsOffset: 80 },
];

/**
 * Reads and checks the environment.
 *
 * @param {NodeJS.ProcessEnv} env
 * @throws {Refusal} one line for each wrong value
 */
export function readSettings(env) {
  const faults = [];
  const read = createReader(env, faults);
  const base = read.integer('CARILLON_PORT_BASE', undefined, 1, LAST_PORT - LAST_OFFSET);
  const host = read.address('CARILLON_HOST', '127.0.0.1');
  const settings = {
    home: resolve(read.text('CARILLON_HOME', resolve(ROOT, '.carillon'))),
    host,
    // Redis, MongoDB and the ops ports ask for no password, so they are never opened to a network.
    privateHost: isLoopback(host) ? host : '127.0.0.1',
    ports: portsFrom(base),
    services: SERVICES.map(({ service, count, opsOffset }) => ({
      service,
      count: count === undefined ? 1 : read.integer(count, 1, 0, MOST_PROCESSES),
      firstOpsPort: (base ?? DEFAULT_BASE) + opsOffset,
    })),
    demo: read.oneOf('CARILLON_DEMO', '1', ['0', '1']) === '1',
    addressLimits: read.oneOf('CARILLON_ADDRESS_LIMITS', 'on', ['on', 'off']),
    retentionSeconds: read.integer('CARILLON_RETENTION_SECONDS', 172_800, 1, 31_536_000),
    redisUrl: read.url('REDIS_URL', /^rediss?:\/\/./),
    mongodbUri: read.url('MONGODB_URI', /^mongodb(\+srv)?:\/\/./),
  };
  if (faults.length > 0) throw new Refusal(faults.join('\n'));
  return settings;
}

function portsFrom(base) {
  const entries = Object.entries(OFFSETS).map(([name, offset]) => [
    name,
    base === undefined ? (DEFAULT_PORTS[name] ?? DEFAULT_BASE + offset) : base + offset,
  ]);
  return Object.fromEntries(entries);
}

function isLoopback(host) {
  return host === '::1' || host.startsWith('127.');
}

function createReader(env, faults) {
  // An empty value is an unset one: that is what `VARIABLE= npm start` and compose files mean.
  const text = (name, fallback) => env[name] || fallback;
  const check = (name, good, must, fallback) => {
    const value = text(name, undefined);
    if (value === undefined) return fallback;
    if (good(value)) return value;
    faults.push(`${name} is ${JSON.stringify(value)}, and must be ${must}.`);
    return fallback;
  };
  return {
    text,
    oneOf: (name, fallback, values) =>
      check(name, (value) => values.includes(value), values.join(' or '), fallback),
    integer: (name, fallback, least, most) => {
      const good = (value) => /^\d+$/.test(value) && +value >= least && +value <= most;
      const value = check(name, good, `a whole number from ${least} to ${most}`, fallback);
      return value === undefined ? undefined : Number(value);
    },
    address: (name, fallback) => {
      const good = (value) => value === 'localhost' || isIP(value) !== 0;
      const value = check(name, good, 'an IP address of this machine', fallback);
      return value === 'localhost' ? fallback : value;
    },
    url: (name, shape) => {
      const value = text(name, undefined);
      if (value === undefined || shape.test(value)) return value;
      // It may hold a password, so it is not repeated.
      faults.push(`${name} must look like ${name === 'REDIS_URL' ? 'redis' : 'mongodb'}://host…`);
      return undefined;
    },
  };
}
