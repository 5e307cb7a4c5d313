import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, readFileSync } from 'node:fs';
import { z } from 'zod';
import type { Home } from './home.ts';
import { Refusal } from './refusal.ts';

const FILE = 'secrets.json';
const KEY_BYTES = 32;
const hex = (digits: number) => z.string().regex(new RegExp(`^[0-9a-f]{${digits}}$`));

const secretsShape = z.object({
  /** HMAC key of the digests under which API keys are stored. */
  apiKeyPepper: hex(64),
  /** `keyId:key`: the HMAC key that device credentials are derived from. */
  deviceAuthKeys: z.string().regex(/^\w+:[0-9a-f]{64}$/),
  /** `keyId:key`: the key under which providers' secrets are sealed. */
  credentialKeys: z.string().regex(/^\w+:[0-9a-f]{64}$/),
  /** The demonstration's tenant, once it is made. */
  account: z.string().optional(),
  app: z.string().optional(),
  apiKey: z.string().optional(),
});

/** What a stack keeps to itself; lost with the folder, and then its devices must register anew. */
export type Secrets = z.infer<typeof secretsShape>;

/**
 * Reads the stack's secrets; the first time it makes them.
 * @throws {Refusal} when the file is there and can't be used: new secrets would lock everybody out
 */
export function openSecrets(home: Home): Secrets {
  if (!existsSync(home.at(FILE))) {
    const made = {
      apiKeyPepper: randomBytes(KEY_BYTES).toString('hex'),
      deviceAuthKeys: newKeys(),
      credentialKeys: newKeys(),
    };
    saveSecrets(home, made);
    return made;
  }
  try {
    chmodSync(home.at(FILE), 0o600);
    const kept: unknown = JSON.parse(readFileSync(home.at(FILE), 'utf8'));
    // A folder of before there were providers has no key for their secrets yet.
    if (isRecord(kept) && !('credentialKeys' in kept)) {
      const secrets = secretsShape.parse({ ...kept, credentialKeys: newKeys() });
      saveSecrets(home, secrets);
      return secrets;
    }
    return secretsShape.parse(kept);
  } catch (error) {
    throw new Refusal(
      `${home.at(FILE)} can't be used (${reasonOf(error)}). Put it back as it was; or remove it, and the present API keys and devices are no longer known.`,
    );
  }
}

function newKeys(): string {
  return `1:${randomBytes(KEY_BYTES).toString('hex')}`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function reasonOf(error: unknown): string {
  if (error instanceof SyntaxError) return 'it is not JSON';
  if (!(error instanceof z.ZodError)) return error instanceof Error ? error.message : String(error);
  const wrong = error.issues.map(({ path }) => path.join('.') || 'all of it');
  return `missing or wrong: ${wrong.join(', ')}`;
}

/** Keeps the secrets for the next start. */
export function saveSecrets(home: Home, secrets: Secrets): void {
  home.write(FILE, secrets);
}
