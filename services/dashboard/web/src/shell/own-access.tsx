import { Button, Group, Stack, Text } from '@mantine/core';
import { change } from '../api/request.ts';
import { useChange } from '../api/use-change.ts';
import { ButtonLink } from '../parts/links.tsx';
import { endSession, useSession } from './session.ts';

/** Shows the operator's name, and the logout. */
export function OwnAccess() {
  const { operator } = useSession();
  const logout = useChange({ run: () => change('POST', '/logout'), onDone: endSession });
  return (
    <Stack gap={6} p="sm" component="section" aria-label="Own access">
      <Text fz="sm" fw={600} className="wrap-anywhere" lh={1.2}>
        {operator.name}{' '}
        <Text span fz="xs" fw={400} c="dimmed">
          {operator.role}
        </Text>
      </Text>
      <Group gap={6}>
        <Button size="compact-xs" variant="default" onClick={() => logout.mutate()}>
          Log out
        </Button>
        <ButtonLink size="compact-xs" variant="default" to="/password">
          Password
        </ButtonLink>
      </Group>
    </Stack>
  );
}
