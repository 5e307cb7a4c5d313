import { z } from 'zod';
import { type Carillon, commandRefusal, jsonOf } from './command-line.ts';
import type { Home } from './home.ts';
import { type Secrets, saveSecrets } from './secrets.ts';

const REFUSED = 1;
const account = z.object({ id: z.string() });
const app = z.object({ id: z.string(), apiKey: z.string() });

/** The app that a fresh stack can be tried with. */
export interface Tenant {
  app: string;
  apiKey: string;
}

/** Brings the database's indexes and documents to what this version expects. */
export async function migrate(carillon: Carillon): Promise<void> {
  const answer = await carillon('migrate');
  if (answer.code !== 0) throw commandRefusal('Preparing the database', answer);
}

/**
 * The app of the first run: made then, and again when the database no longer knows it (it was
 * emptied, or MONGODB_URI names another one).
 */
export async function ensureTenant(
  carillon: Carillon,
  home: Home,
  secrets: Secrets,
): Promise<Tenant> {
  if (secrets.app !== undefined && secrets.apiKey !== undefined) {
    const answer = await carillon('--json', 'app', 'show', secrets.app);
    if (answer.code === 0) return { app: secrets.app, apiKey: secrets.apiKey };
    if (answer.code !== REFUSED) throw commandRefusal('Looking up the app', answer);
  }
  const madeAccount = account.parse(
    jsonOf(
      'Making an account',
      await carillon('--json', 'account', 'create', 'demo', '--plan', 'pro'),
    ),
  );
  const madeApp = app.parse(
    jsonOf(
      'Making an app',
      await carillon('--json', 'app', 'create', 'demo', '--account', madeAccount.id),
    ),
  );
  // Every channel can be tried without an account anywhere.
  jsonOf(
    'Setting the sandbox’s credentials',
    await carillon('--json', 'credential', 'sandbox', '--app', madeApp.id),
  );
  saveSecrets(home, {
    ...secrets,
    account: madeAccount.id,
    app: madeApp.id,
    apiKey: madeApp.apiKey,
  });
  return { app: madeApp.id, apiKey: madeApp.apiKey };
}
