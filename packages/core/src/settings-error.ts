/** A setting is wrong, so that another try would fail too. The message names the setting, but no secret. */
export class SettingsError extends Error {}
