import { type KeyObject, verify } from 'node:crypto';

const HASHES: Record<string, string> = { ES256: 'sha256', RS256: 'sha256' };

/** A signed token, taken apart but not trusted yet (RFC 7519). */
export interface Jwt {
  header: Record<string, unknown>;
  claims: Record<string, unknown>;
  /** Whether this key has signed it by this algorithm. */
  isSignedBy(key: KeyObject, algorithm: 'ES256' | 'RS256'): boolean;
}

/** Takes a token apart; undefined when it is none. */
export function readJwt(text: string): Jwt | undefined {
  const [header, claims, signature, ...rest] = text.split('.');
  if (header === undefined || claims === undefined || signature === undefined) return undefined;
  if (rest.length > 0) return undefined;
  const parts = [header, claims].map(readPart);
  if (parts[0] === undefined || parts[1] === undefined) return undefined;
  const [readHeader, readClaims] = [parts[0], parts[1]];
  return {
    header: readHeader,
    claims: readClaims,
    isSignedBy: (key, algorithm) =>
      readHeader.alg === algorithm &&
      verify(
        HASHES[algorithm],
        Buffer.from(`${header}.${claims}`),
        { key, dsaEncoding: 'ieee-p1363' },
        Buffer.from(signature, 'base64url'),
      ),
  };
}

function readPart(part: string): Record<string, unknown> | undefined {
  return readObject(Buffer.from(part, 'base64url').toString());
}

/** A JSON object out of a text; undefined when it is something else. */
export function readObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
