import { ApiError } from '@carillon/core/api-error';
import { type DeviceAuthKeys, deviceAuth } from '@carillon/core/device-auth';
import type { Platform } from '@carillon/core/platforms';
import { z } from 'zod';

/** What registering needs. */
export interface RegisterDeps {
  authKeys: DeviceAuthKeys;
  appExists(id: string): Promise<boolean>;
  register(app: string, platform: Platform): Promise<string>;
  /** False: a failure was seen lately, nobody may get a new token. */
  isQuiet(): boolean;
}

const body = z.object({
  appId: z.string().regex(/^[0-9a-f]{24}$/),
  platform: z.enum(['android', 'electron', 'python']),
});

/**
 * `POST /register`: a new device of an app, and the credentials it connects with.
 *
 * @throws ApiError INVALID_PARAM, INVALID_APP_ID, SERVICE_UNAVAILABLE
 */
export async function register(
  deps: RegisterDeps,
  value: Record<string, unknown>,
): Promise<{ token: string; auth: string }> {
  if (!deps.isQuiet()) throw new ApiError('SERVICE_UNAVAILABLE');
  const parsed = body.safeParse(value);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new ApiError(
      'INVALID_PARAM',
      `The parameter "${issue?.path.join('.')}" is missing or invalid.`,
    );
  }
  const { appId, platform } = parsed.data;
  if (!(await deps.appExists(appId))) throw new ApiError('INVALID_APP_ID');
  const token = await deps.register(appId, platform);
  return { token, auth: deviceAuth(deps.authKeys, token) };
}
