import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Binary, type Db } from 'mongodb';
import { digestToken, newToken } from '../../packages/admin/src/operators.ts';
import { newObjectId } from '../../packages/core/src/ids.ts';
import { freePortBase } from '../support/free-ports.ts';
import { until } from '../support/until.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A dashboard process, and the session of an owner. */
export interface ConsoleUnderTest {
  pid: number;
  url: string;
  cookie: string;
  stop(): Promise<void>;
}

/** Starts the real dashboard on a database and a Redis of its own. */
export async function startConsole(
  db: Db,
  mongodb: string,
  redis: string,
): Promise<ConsoleUnderTest> {
  const base = await freePortBase();
  const [port, ops] = [base + 1, base + 2];
  const child = spawn(process.execPath, ['services/dashboard/src/main.ts'], {
    cwd: ROOT,
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH ?? '',
      MONGODB_URI: mongodb,
      REDIS_URL: redis,
      DASHBOARD_LISTEN: `127.0.0.1:${port}`,
      OPS_LISTEN: `127.0.0.1:${ops}`,
      API_KEY_PEPPER: 'p'.repeat(32),
      CREDENTIAL_KEYS: `1:${'ab'.repeat(32)}`,
    },
  });
  // In case the benchmark is interrupted.
  const stopOnExit = () => void child.kill('SIGTERM');
  process.once('exit', stopOnExit);
  const url = `http://127.0.0.1:${port}`;
  await until('a console', () =>
    fetch(`${url}/api/login`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return {
    pid: child.pid ?? 0,
    url,
    cookie: `carillon-session-${port}=${await createSession(db)}`,
    async stop() {
      process.off('exit', stopOnExit);
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/** Stores an owner with a session. Returns the session's token. */
async function createSession(db: Db): Promise<string> {
  const operator = newObjectId();
  const token = newToken();
  const now = new Date();
  await db.collection<{ _id: string }>('operators').insertOne({
    ...{ _id: operator, name: 'Bench', nameKey: 'bench', role: 'owner', accounts: 'all' },
    createdAt: now,
  } as { _id: string });
  await db.collection<{ _id: Binary }>('sessions').insertOne({
    ...{ _id: new Binary(digestToken(token)), operator, createdAt: now, seenAt: now },
    expiresAt: new Date(now.getTime() + 86_400_000),
  } as { _id: Binary });
  return token;
}
