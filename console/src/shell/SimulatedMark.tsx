import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { api } from '../api/client'

/** The mark of a pool with simulated cards, on each page. */
export function SimulatedMark() {
  const { t } = useTranslation('shell')
  const pool = useQuery({
    queryKey: ['pool'],
    queryFn: async () => (await api.GET('/api/v1/pool')).data,
    staleTime: 60_000,
  })
  if (!pool.data?.simulated) return null
  return (
    <span className="sim" title={t('simulatedWhy')}>
      {t('simulated')}
    </span>
  )
}
