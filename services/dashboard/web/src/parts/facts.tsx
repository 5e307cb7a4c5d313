import { Box, SimpleGrid, Text } from '@mantine/core';
import type { ReactNode } from 'react';

/** Shows names and values in columns; values that are undefined are left out. */
export function Facts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <SimpleGrid component="dl" m={0} cols={{ base: 2, sm: 3, lg: 4 }} spacing="md">
      {facts.map(([name, value]) => (
        <Box key={name} miw={0}>
          <Text component="dt" fz="xs" c="dimmed">
            {name}
          </Text>
          <Text component="dd" fz="sm" m={0} className="wrap-anywhere">
            {value}
          </Text>
        </Box>
      ))}
    </SimpleGrid>
  );
}
