import { createHmac } from 'node:crypto';

/**
 * Computes the digest that a Secret API Key is stored and looked up by: HMAC-SHA-256 with the pepper, 64 hex
 * characters. The key itself is not stored, so neither the database nor the duration of a lookup reveals it.
 */
export function digestApiKey(pepper: string, apiKey: string): string {
  return createHmac('sha256', pepper).update(apiKey).digest('hex');
}

const API_KEY_FORMAT = /^[0-9a-zA-Z]{32,128}$/;

/** Checks the format of an API key, so that other strings cost no lookup. */
export function isApiKeyFormat(text: string): boolean {
  return API_KEY_FORMAT.test(text);
}
