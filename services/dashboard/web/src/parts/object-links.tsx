import { Group } from '@mantine/core';
import { CopyButton } from './copy-button.tsx';
import { shortenId } from './id.tsx';
import { TextLink } from './links.tsx';

/** Links to a push by its shortened id, with a button that copies the whole one. */
export function PushLink({ id, token }: { id: string; token?: string }) {
  return (
    <Group gap={2} wrap="nowrap">
      <TextLink
        to="/pushes/$push"
        params={{ push: id }}
        search={token === undefined ? {} : { token }}
        className="mono"
        title={id}
      >
        {shortenId(id, 14)}
      </TextLink>
      <CopyButton text={id} label={`Copy the id ${id}`} />
    </Group>
  );
}

/** Links to a device by its shortened token, with a button that copies the whole one. */
export function DeviceLink({ token }: { token: string }) {
  return (
    <Group gap={2} wrap="nowrap">
      <TextLink to="/devices/$token" params={{ token }} className="mono" title={token}>
        {shortenId(token, 14)}
      </TextLink>
      <CopyButton text={token} label={`Copy the token ${token}`} />
    </Group>
  );
}
