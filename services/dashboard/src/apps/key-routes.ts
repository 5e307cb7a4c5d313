import { createKey, type KeyView, listKeys, revokeKey } from '@carillon/admin/keys';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import { objectId } from '../http/inputs.ts';
import { defineRoute } from '../http/route.ts';
import { createAccountOfApp } from './app-routes.ts';

/**
 * Returns the routes of an app's API keys. A key is in the response to the request that creates it, and nowhere else.
 *
 * @param pepper HMAC key of the keys' digests
 */
export function keyRoutes(store: Pick<Store, 'apps' | 'keys'>, pepper: string) {
  const account = createAccountOfApp(store);
  return [
    defineRoute({
      method: 'get',
      path: '/apps/:app/keys',
      isPublic: true,
      role: 'viewer',
      account,
      input: z.object({ app: objectId }),
      handle: async ({ input }) => ({ items: (await listKeys(store, input.app)).map(toBody) }),
    }),
    defineRoute({
      method: 'post',
      path: '/apps/:app/keys',
      isPublic: true,
      role: 'admin',
      account,
      input: z.object({ app: objectId }),
      audit: 'key.create',
      async handle({ input }) {
        const { id, apiKey } = await createKey(store, pepper, input.app);
        return { id, key: apiKey };
      },
    }),
    defineRoute({
      method: 'delete',
      path: '/apps/:app/keys/:id',
      isPublic: true,
      role: 'admin',
      account,
      input: z.object({ app: objectId, id: objectId }),
      audit: 'key.revoke',
      handle: ({ input }) => revokeKey(store, input.id, input.app),
    }),
  ];
}

function toBody({ id, app, lastFour, createdAt, lastUsedAt, revokedAt }: KeyView) {
  return {
    ...{ id, app, lastFour, createdAt: createdAt.getTime() },
    ...(lastUsedAt !== undefined && { lastUsedAt: lastUsedAt.getTime() }),
    ...(revokedAt !== undefined && { revokedAt: revokedAt.getTime() }),
  };
}
