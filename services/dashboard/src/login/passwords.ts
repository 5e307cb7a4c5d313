import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { toAddressGroup } from '@carillon/core/client-address';
import { ConsoleError } from '../http/route.ts';

/** Costs of OWASP's first recommendation for argon2id: 19 MiB, 2 passes, 1 lane. */
const COSTS = { memory: 19_456, passes: 2, parallelism: 1 } as const;
const SALT_BYTES = 16;
const HASH_BYTES = 32;
const PHC = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([\w+/]+)\$([\w+/]+)$/;
/** Maximum hashes under way. Each takes a thread of Node's pool of four, and 19 MiB. */
const MAX_RUNNING = 2;
/** Maximum hashes that wait for clients of any kind. */
const MAX_WAITING = 32;
/** Maximum further hashes that wait, whose places only known clients may take: strangers with many addresses can fill the others. */
const MAX_WAITING_OF_KNOWN = 32;
/** Maximum hashes under way and waiting for one known client, or for one address of strangers. */
const MAX_PER_CLIENT = 2;

const runArgon2 = promisify(argon2);

/** Client whose password is hashed. */
export interface PasswordClient {
  address: string;
  /** The operator whose known browser or session, or the link whose token, the client has; undefined if it has none. */
  knownAs: string | undefined;
}

/** Hashes and verifies passwords, a few at a time. */
export type Passwords = ReturnType<typeof createPasswords>;

/** Creates the hashing of a process. All waiting together is bounded, and so is each client's share of it. */
export function createPasswords() {
  const runBounded = createBound();
  const decoy = hash(randomBytes(SALT_BYTES).toString('hex'));
  decoy.catch(() => undefined);
  return {
    /** Returns the hash of a password in PHC format. @throws ConsoleError UNAVAILABLE when too many wait */
    hash: (password: string, client: PasswordClient): Promise<string> =>
      runBounded(client, () => hash(password)),
    /**
     * Verifies a password. Without a hash it takes as long and returns false, so that the time does not reveal which
     * names exist.
     *
     * @throws ConsoleError UNAVAILABLE when too many wait
     */
    verify: (
      password: string,
      stored: string | undefined,
      client: PasswordClient,
    ): Promise<boolean> =>
      runBounded(client, async () => {
        const isEqual = await verify(password, stored ?? (await decoy));
        return isEqual && stored !== undefined;
      }),
  };
}

async function hash(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const tag = await derive(password, salt, COSTS, HASH_BYTES);
  const { memory, passes, parallelism } = COSTS;
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${encode(salt)}$${encode(tag)}`;
}

async function verify(password: string, stored: string): Promise<boolean> {
  const [, memory, passes, parallelism, salt = '', tag = ''] = PHC.exec(stored) ?? [];
  if (tag === '') throw new Error('an operator has a password hash of an unknown format');
  const costs = {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
  };
  const expected = Buffer.from(tag, 'base64');
  const actual = await derive(password, Buffer.from(salt, 'base64'), costs, expected.length);
  return timingSafeEqual(actual, expected);
}

/** The same characters can be typed as different code points: NFKC makes them one (RFC 8265, 4.2). */
function derive(
  password: string,
  nonce: Buffer,
  costs: { memory: number; passes: number; parallelism: number },
  tagLength: number,
): Promise<Buffer> {
  const message = password.normalize('NFKC');
  return runArgon2('argon2id', { message, nonce, ...costs, tagLength });
}

function encode(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '');
}

/** Creates a function that runs at most two tasks at once and lets a bounded number wait. */
function createBound() {
  const waiting: (() => void)[] = [];
  const byClient = new Map<string, number>();
  let running = 0;

  function count(key: string, change: 1 | -1): void {
    const next = (byClient.get(key) ?? 0) + change;
    if (next === 0) byClient.delete(key);
    else byClient.set(key, next);
  }

  return async <T>({ address, knownAs }: PasswordClient, task: () => Promise<T>): Promise<T> => {
    // Others behind the address of a known client don't take its share. An id or a digest is never an address.
    const key = knownAs ?? toAddressGroup(address);
    const places = knownAs === undefined ? MAX_WAITING : MAX_WAITING + MAX_WAITING_OF_KNOWN;
    if (waiting.length >= places || (byClient.get(key) ?? 0) >= MAX_PER_CLIENT) {
      throw new ConsoleError('UNAVAILABLE', 'Too many logins at once. Try again.', 1);
    }
    count(key, 1);
    try {
      // A task that ends gives its place to the one that waits longest.
      if (running >= MAX_RUNNING) await new Promise<void>((resolve) => waiting.push(resolve));
      else running += 1;
      try {
        return await task();
      } finally {
        const next = waiting.shift();
        if (next === undefined) running -= 1;
        else next();
      }
    } finally {
      count(key, -1);
    }
  };
}
