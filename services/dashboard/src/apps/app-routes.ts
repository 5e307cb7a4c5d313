import {
  type AppView,
  createApp,
  getApp,
  listApps,
  normalizeBundleId,
  normalizeWebHost,
  setAppPaused,
  updateAppSettings,
} from '@carillon/admin/apps';
import { withFcmWarning } from '@carillon/admin/fcm-use';
import { LIMITS } from '@carillon/core/limits';
import type { SealingKeys } from '@carillon/core/sealing';
import type { AppSettings } from '@carillon/store/apps';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { objectId, objectName, pageFields, toPageQuery } from '../http/inputs.ts';
import { defineRoute, mayUseAccount, notFound } from '../http/route.ts';

const MAX_PAYLOAD_CHARACTERS = 1_000_000;
const MAX_FALLBACK_SECONDS = 86_400;
const MAX_REGISTRATIONS_PER_HOUR = 1_000_000_000;
const MAX_NAMES = 100;
const MAX_HOST = 253;

const settingsFields = z.object({
  name: objectName.optional(),
  payloadLimit: z.number().int().min(1).max(MAX_PAYLOAD_CHARACTERS).optional(),
  dataString: z.boolean().optional(),
  registration: z.enum(['open', 'closed']).optional(),
  registrationsPerHour: z
    .number()
    .int()
    .min(1)
    .max(MAX_REGISTRATIONS_PER_HOUR)
    .nullable()
    .optional(),
  fcmFallback: z
    .union([z.enum(['off', 'first']), z.number().int().min(0).max(MAX_FALLBACK_SECONDS)])
    .optional(),
  fcmNotification: z.boolean().optional(),
  bundleIds: z.array(z.string().max(MAX_HOST)).max(MAX_NAMES).optional(),
  webHosts: z.array(z.string().max(MAX_HOST)).max(MAX_NAMES).optional(),
  pruneAfterDays: z
    .number()
    .int()
    .min(LIMITS.pruneDaysMin)
    .max(LIMITS.pruneDaysMax)
    .nullable()
    .optional(),
  paused: z.boolean().optional(),
});

/** Creates the function that finds the account of the app in a route's path. */
export function createAccountOfApp({ apps }: Pick<Store, 'apps'>) {
  return async <Input extends { app: string }>({ app }: Input): Promise<string | undefined> =>
    (await apps.find(app))?.account;
}

/**
 * Returns the routes of apps and their settings.
 *
 * @param pepper HMAC key of the API keys' digests
 */
export function appRoutes(
  store: Pick<Store, 'accounts' | 'apps' | 'keys' | 'credentials' | 'batchTable' | 'devices'>,
  pepper: string,
  sealingKeys: SealingKeys,
) {
  return [
    listRoute(store),
    defineRoute({
      method: 'post',
      path: '/apps',
      isPublic: true,
      role: 'admin',
      account: async ({ account }) => (await store.accounts.find(account))?._id,
      input: z.object({ account: objectId, name: objectName }),
      audit: 'app.create',
      auditFacts: ({ name }) => ({ name }),
      async handle({ input }) {
        const { id, apiKey } = await createApp(store, { pepper, sealingKeys }, input);
        return { id, key: apiKey };
      },
    }),
    defineRoute({
      method: 'get',
      path: '/apps/:app',
      isPublic: true,
      role: 'viewer',
      account: createAccountOfApp(store),
      input: z.object({ app: objectId }),
      handle: async ({ input }) => toAppBody(await getApp(store, input.app)),
    }),
    defineRoute({
      method: 'put',
      path: '/apps/:app',
      isPublic: true,
      role: 'admin',
      account: createAccountOfApp(store),
      input: settingsFields
        .extend({ app: objectId })
        .refine(
          (fields) => Object.values(fields).filter((value) => value !== undefined).length > 1,
          {
            message: 'Give a setting.',
          },
        ),
      audit: 'app.change',
      auditFacts: ({ app: _app, ...settings }) => ({
        settings: Object.keys(settings).join(','),
        ...(settings.paused !== undefined && { paused: settings.paused }),
      }),
      async handle({ input: { app, paused, ...settings } }) {
        const changes = toAppSettings(settings);
        // Before the pause: an address that another app has changes nothing.
        let view =
          Object.keys(changes).length === 0
            ? undefined
            : await updateAppSettings(store, app, changes);
        if (paused !== undefined) view = await setAppPaused(store, app, paused);
        const body = toAppBody(view ?? (await getApp(store, app)));
        return settings.fcmFallback === undefined ? body : withFcmWarning(store, app, body);
      },
    }),
  ];
}

function listRoute(store: Pick<Store, 'apps'>) {
  return defineRoute({
    method: 'get',
    path: '/apps',
    isPublic: true,
    role: 'viewer',
    account: 'any',
    input: z.object({ ...pageFields, account: objectId.optional() }),
    async handle({ input: { account, ...query }, operator }) {
      if (account !== undefined && !mayUseAccount(operator, account)) throw notFound();
      const visible = operator.accounts === 'all' ? undefined : operator.accounts;
      const page = await listApps(store, { ...toPageQuery(query), account: account ?? visible });
      return { ...page, items: page.items.map(toAppBody) };
    },
  });
}

function toAppBody({ createdAt, ...app }: AppView) {
  return { ...app, createdAt: Date.parse(createdAt) };
}

function toAppSettings(settings: z.infer<typeof settingsFields>): AppSettings {
  const { name, payloadLimit, dataString, registration, registrationsPerHour } = settings;
  const { fcmFallback, fcmNotification, bundleIds, webHosts, pruneAfterDays } = settings;
  return {
    ...(name !== undefined && { name }),
    ...(payloadLimit !== undefined && { payloadLimit }),
    ...(dataString !== undefined && { dataString }),
    ...(registration !== undefined && { registrationClosed: registration === 'closed' }),
    ...(registrationsPerHour !== undefined && { registrationsPerHour }),
    ...(fcmFallback !== undefined && { fcm: fcmFallback === 'off' ? null : fcmFallback }),
    ...(fcmNotification !== undefined && { fcmNotification }),
    ...(bundleIds !== undefined && { bundleIds: unique(bundleIds.map(normalizeBundleId)) }),
    ...(webHosts !== undefined && { webHosts: unique(webHosts.map(normalizeWebHost)) }),
    ...(pruneAfterDays !== undefined && { pruneAfterDays }),
  };
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)];
}
