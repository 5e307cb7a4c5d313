import type { Store } from '@carillon/store/store';

/** Finds the account of a route's object; undefined when the object doesn't exist. */
export type AccountOf = ReturnType<typeof createAccountOf>;

/** Creates the lookups of accounts, for the `account` of routes. */
export function createAccountOf({
  apps,
  pushes,
  devices,
  redrives,
}: Pick<Store, 'apps' | 'pushes' | 'devices' | 'redrives'>) {
  const ofApp = async (app: string | undefined): Promise<string | undefined> =>
    app === undefined ? undefined : (await apps.find(app))?.account;
  return {
    app: ofApp,
    push: async (id: string) => ofApp(await pushes.findApp(id)),
    device: async (token: string) => ofApp((await devices.find(token))?.app),
    redrive: async (id: string) => ofApp((await redrives.find(id))?.app),
  };
}
