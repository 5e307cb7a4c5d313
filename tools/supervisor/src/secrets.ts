import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, readFileSync } from 'node:fs';
import { z } from 'zod';
import { UserError } from '../bootstrap/terminal.mjs';
import type { DataDir } from './data-dir.ts';

const SECRETS_FILE = 'secrets.json';
const KEY_BYTES = 32;
const hex = (digits: number) => z.string().regex(new RegExp(`^[0-9a-f]{${digits}}$`));

const secretsSchema = z.object({
  /** HMAC key of the stored digests of API keys. */
  apiKeyPepper: hex(64),
  /** `keyId:key` pairs, newest first: the HMAC keys that device credentials are derived from. */
  deviceAuthKeys: z
    .string()
    .regex(/^\d{1,3}:[0-9a-f]{64}(\s*,\s*\d{1,3}:[0-9a-f]{64})*$/)
    .refine(haveUniqueIds),
  /** `keyId:key` pairs, newest first: the keys that seal provider credentials. */
  credentialKeys: z
    .string()
    .regex(/^(\d{1,3}:[0-9a-f]{64})(\s*,\s*\d{1,3}:[0-9a-f]{64})*$/i)
    .refine(haveUniqueIds),
  /** The demo account and app, once they are created. */
  account: z.string().optional(),
  app: z.string().optional(),
  apiKey: z.string().optional(),
});

/** Secrets of a stack. When the file is lost, its devices have to register again. */
export type Secrets = z.infer<typeof secretsSchema>;

/**
 * Reads the stack's secrets, or creates them at the first start.
 * @throws {UserError} when the file exists and is invalid: new secrets would invalidate all credentials
 */
export function openSecrets(dataDir: DataDir): Secrets {
  if (!existsSync(dataDir.resolvePath(SECRETS_FILE))) {
    const created = {
      apiKeyPepper: randomBytes(KEY_BYTES).toString('hex'),
      deviceAuthKeys: generateKeys(),
      credentialKeys: generateKeys(),
    };
    saveSecrets(dataDir, created);
    return created;
  }
  try {
    chmodSync(dataDir.resolvePath(SECRETS_FILE), 0o600);
    const stored: unknown = JSON.parse(readFileSync(dataDir.resolvePath(SECRETS_FILE), 'utf8'));
    // A folder of a version before provider credentials has no credentialKeys.
    if (isRecord(stored) && !('credentialKeys' in stored)) {
      const secrets = secretsSchema.parse({ ...stored, credentialKeys: generateKeys() });
      saveSecrets(dataDir, secrets);
      return secrets;
    }
    return secretsSchema.parse(stored);
  } catch (error) {
    throw new UserError(
      `${dataDir.resolvePath(SECRETS_FILE)} is not usable (${describeError(error)}). Restore it; or delete it, which invalidates all API keys and device credentials.`,
    );
  }
}

function haveUniqueIds(keys: string): boolean {
  const ids = keys.split(',').map((entry) => Number(entry.split(':')[0]));
  return new Set(ids).size === ids.length;
}

function generateKeys(): string {
  return `1:${randomBytes(KEY_BYTES).toString('hex')}`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function describeError(error: unknown): string {
  if (error instanceof SyntaxError) return 'it is not JSON';
  if (!(error instanceof z.ZodError)) return error instanceof Error ? error.message : String(error);
  const invalidPaths = error.issues.map(({ path }) => path.join('.') || 'the whole file');
  return `missing or invalid: ${invalidPaths.join(', ')}`;
}

/** Saves the secrets for the next start. */
export function saveSecrets(dataDir: DataDir, secrets: Secrets): void {
  dataDir.writeJson(SECRETS_FILE, secrets);
}
