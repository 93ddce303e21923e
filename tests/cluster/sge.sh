# levin launch in a job of a real Grid Engine: the hosts and slots are those of the parallel environment, and qrsh reaches
# them, without ssh.
HOSTS=2
. "$LEVIN_SOURCE/tests/cluster/restart.bash"
tools=/usr/lib/gridengine examples=/usr/share/gridengine
[ -x /usr/sbin/sge_qmaster ] && [ -x /usr/sbin/sge_execd ] && command -v qsub >/dev/null && [ -x $tools/spoolinit ] ||
    skip "no Grid Engine (apt install gridengine-master gridengine-exec gridengine-client)"
export SGE_ROOT=$PWD/sge SGE_CELL=default SGE_QMASTER_PORT=6444 SGE_EXECD_PORT=6445
mkdir -p sge/default/common sge/spool/qmaster/job_scripts sge/spool/db sge/spool/execd
for name in util bin lib utilbin; do ln -s /var/lib/gridengine/$name sge/$name; done
chmod 755 .
echo h1 >sge/default/common/act_qmaster
cat >sge/default/common/bootstrap <<END
admin_user              none
default_domain          none
ignore_fqdn             true
spooling_method         berkeleydb
spooling_lib            libspoolb
spooling_params         $SGE_ROOT/spool/db
binary_path             /usr/sbin
qmaster_spool_dir       $SGE_ROOT/spool/qmaster
security_mode           none
listener_threads        2
worker_threads          2
scheduler_threads       1
END
sed "s|^execd_spool_dir .*|execd_spool_dir $SGE_ROOT/spool/execd|; s/^min_\([ug]\)id .*/min_\1id 0/" $examples/default-configuration >configuration
on 1 $tools/spoolinit berkeleydb libspoolb "$SGE_ROOT/spool/db" init
on 1 $tools/spooldefaults configuration configuration
on 1 $tools/spooldefaults complexes $examples/util/resources/centry
on 1 $tools/spooldefaults usersets $examples/util/resources/usersets
on 1 $tools/spooldefaults managers "$(id -un)"
on 1 /usr/sbin/sge_qmaster
soon on 1 qconf -sh
for host in h1 h2; do
    on 1 qconf -sh | grep -qx $host || on 1 qconf -ah $host
    on 1 qconf -as $host
done
for i in 1 2; do on $i /usr/sbin/sge_execd; done
reports() { on 1 qhost -h $1 | grep -q "^$1 .*[0-9][MG] "; }
for host in h1 h2; do soon reports $host; done
cat >pe <<END
pe_name            levin
slots              8
user_lists         NONE
xuser_lists        NONE
start_proc_args    NONE
stop_proc_args     NONE
allocation_rule    2
control_slaves     TRUE
job_is_first_task  FALSE
urgency_slots      min
accounting_summary FALSE
qsort_args         NONE
END
printf 'group_name @allhosts\nhostlist h1 h2\n' >group
on 1 qconf -Ap pe
on 1 qconf -Ahgrp group
on 1 qconf -sq | sed 's/^qname .*/qname all.q/; s/^hostlist .*/hostlist @allhosts/; s/^slots .*/slots 2/; s/^pe_list .*/pe_list levin/
    s/^load_thresholds .*/load_thresholds NONE/; s/^shell .*/shell \/bin\/bash/' >queue
on 1 qconf -Aq queue

arguments one --trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.threads=1
code 0 "$LEVIN" "${all[@]}"
launchers=(levin)
! mpi_here openmpi || launchers+=(openmpi)
for launcher in "${launchers[@]}"; do
    rm -rf job
    arguments job --trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.threads=1
    printf '%s\n' '#!/bin/bash' '#$ -cwd -j y -o said -pe levin 4 -V' "'$LEVIN' launch --launcher=$launcher -- ${all[*]}" >script
    code 0 on 1 timeout 600 qsub -sync y script
    check grep -qE "^--- .* rank 0 of 4 on h[12]" job/logs/rank-0.log
    check [ "$(cat job/logs/rank-*.log | grep -oE '^--- .* rank [0-3] of 4 on h[12]' | grep -oE 'h[12]$' | sort | uniq -c | tr -s ' \n' ' ')" = " 2 h1 2 h2 " ]
    same_run one job
done
