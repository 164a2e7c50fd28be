"""Every SXid that a third-generation NVSwitch (HGX and DGX H100) can log, as data.

One line each: number, ``*`` where it is in the SXid tables of the Fabric Manager user guide, kind (see
sxids.py), and the driver's own text, so that a search finds the log line. Numbers and texts are those that
NVIDIA's open kernel modules 595.45.04 print for this switch (LS10); the few that only the guide has are
included.
"""

ROWS = """\
10001* warn error of a privileged register access
10002* warn time-out of a privileged register access
10003* all interrupt that nobody handles
10004* thermal the switch is too hot and slows its links down
10005* note the switch has cooled down
10006  always the switch is too hot and shuts down
10007  always the switch does not answer on PCIe
10008  always the switch's firmware does not start
10010  warn error of the trusted NVLink mode
11001* link ingress invalid command
11004* job ingress invalid ACL
11009* link ingress invalid VCSet
11011  warn ingress request context mismatch
11012* note ingress header ECC
11013* link ingress header DBE
11014  warn ingress address bounds
11015  warn ingress RID packet
11016  warn ingress RLAN packet
11017  link ingress Remap DBE
11018* link ingress RID DBE
11019* link ingress RLAN DBE
11020* link ingress control parity
11021* note ingress remap ECC
11022* note ingress RID ECC
11023* note ingress RLAN ECC
11024  warn ingress illegal address
11025  warn ingress ExtA remap index
11026  warn ingress ExtB remap index
11027  warn ingress MC remap index
11028  link ingress ExtA remap DBE
11029  link ingress ExtB remap DBE
11030  link ingress MC remap DBE
11031  warn ingress ExtA request context mismatch
11032  warn ingress ExtB request context mismatch
11033  warn ingress MC request context mismatch
11034  warn ingress invalid ExtA ACL
11035  warn ingress invalid ExtB ACL
11036  warn ingress invalid MC ACL
11037  warn ingress ExtA address bounds
11038  warn ingress ExtB address bounds
11039  warn ingress MC address bounds
11040  note ingress ExtA remap ECC
11041  note ingress ExtB remap ECC
11042  note ingress MC remap ECC
11043  warn ingress MC command to unicast address
11044  warn ingress read of reflective memory
11045  warn ingress ExtA address type
11046  warn ingress ExtB address type
11047  warn ingress MC address type
12001* all egress crossbar overflow
12002* all egress packet route
12014  link egress non-posted UR error
12020* always egress sequence ID error
12021* note egress input ECC error limit
12022* link egress input ECC DBE error
12023* note egress output ECC error limit
12024* link egress output ECC DBE error
12025* link egress credit overflow
12026* link egress destination request ID error
12027* link egress destination response ID error
12028* job egress non-posted PRIV error
12029  link egress non-posted HW error
12030* link egress control parity error
12031* link egress credit parity error
12032* link egress flit type mismatch
12033  link egress credit timeout
12034  link egress invalid VC set
12035  link egress crossbar SB parity
12036  note egress reduction header ECC error limit
12037  warn egress reduction header ECC DBE error
12038  note egress MC response ECC error limit
12039  link egress MC response ECC DBE error
12040  note egress RB ECC error limit
12041  link egress reduction ECC DBE error
12042  note egress RSG ECC error limit
12043  link egress MC SG ECC DBE error
12044  note egress MCRB ECC error limit
12045  warn egress reduction buffer ECC DBE error
12046  note egress MC header ECC error limit
12047  link egress MC ram ECC DBE error
12048  warn egress reduction header parity error
12049  warn egress reduction flit mismatch error
12050  warn egress MC response count error
12051  warn egress reduction response count error
14001  link TS pointer crossover
14002  link TS crumbstore
14007  note TS tag store single-bit threshold
14008  link TS tag store fatal ECC
14009  note TS crumbstore single-bit threshold
14010  link TS crumbstore fatal ECC
14017* link TS ATO timeout
14018  link response tag value out of range
15001* link route buffer over/underflow
15002  warn route undefined route
15003  warn route invalid policy
15006* link route transdone over/underflow
15008* note route GLT single-bit ECC limit
15009* link route GLT DBE
15010* link route parity
15011* note route ECC limit
15012* link route incoming DBE
15013* link route credit parity
15015  link MC route ECC
15017  link extended MC route ECC
15018  note RAM ECC limit
15019  link route RAM ECC
15020  warn invalid MC route
18020  link illegal clock control request
19004  link TX DL Credit Parity Error
19009  link poison error
19013  link RX DL HDR Parity Error
19014  link RX DL Data Parity Error
19015  link RX DL Ctrl Parity Error
19021  link RX Packet Length Error
19027  link RSV Packet Status Error
19028  link RSV CacheAttr Probe Rsp Error
19030  link data Length RMW Req Max Error
19031  link data Len Lt ATR RSP Min Error
19032  link invalid Cache Attr PO Error
19036  link RX HDR OVF Error
19037  link RX Data OVF Error
19038  link stomp detected
19039  link RX Poison Error
19046  link NCISOC Parity Error
19047* link NCISOC HDR ECC DBE Error
19048* link NCISOC DAT ECC DBE Error
19049* note NCISOC ECC Limit Error
19050  link TX Response Status HW Error
19051  link TX Response Status UR Error
19052  link TX Response Status PRIV Error
19053  link NCISOC Parity Error
19054* link HDR RAM ECC DBE Error
19055* note HDR RAM ECC Limit Error
19056* link DAT0 RAM ECC DBE Error
19057* note DAT0 RAM ECC Limit Error
19058* link DAT1 RAM ECC DBE Error
19059* note DAT1 RAM ECC Limit Error
19060* link CREQ RAM HDR ECC DBE Error
19061* link CREQ RAM DAT ECC DBE Error
19062* note CREQ RAM DAT ECC Limit Error
19063* link response RAM HDR ECC DBE Error
19064* link response RAM DAT ECC DBE Error
19065* note response RAM ECC Limit Error
19066* link COM RAM HDR ECC DBE Error
19067* link COM RAM DAT ECC DBE Error
19068* note COM RAM ECC Limit Error
19069* link RSP1 RAM HDR ECC DBE Error
19070* link RSP1 RAM DAT ECC DBE Error
19071* note RSP1 RAM ECC Limit Error
19072  warn AN1 Timeout VC0
19073  warn AN1 Timeout VC1
19074  warn AN1 Timeout VC2
19075  warn AN1 Timeout VC3
19076  warn AN1 Timeout VC4
19077  warn AN1 Timeout VC5
19078  warn AN1 Timeout VC6
19079  warn AN1 Timeout VC7
19080  link RX Rsp Status HW Error
19081  link RX Rsp Status UR Error
19082  warn RX Rsp Status PRIV Error
19083  link invalid Collapsed Response Error
19084* heartbeat AN1 heartbeat timeout error
20001* note TX replay error
20002  warn TX Recovery Short
20004  link TX Fault Ram
20005  link TX Fault Interface
20006  link TX Fault Sublink Change
20007  link RX Fault Sublink Change
20008  link RX Fault DL Protocol
20009* warn RX Short Error Rate
20010  warn RX Long Error Rate
20011  warn RX ILA Trigger
20012* cable RX CRC error rate: broken or inconsistent connection
20014  link LTSSM Protocol Error
20034* link LTSSM fault up
20035  link LTSSM fault down
20036  link PHY_A Error
20037  link TX_PL Error
20038  link RX_PL Error
22003* always minion halt
22006  warn minion command fault (DLCMD)
22007  warn minion command timeout (DLCMD)
22010  always minion watchdog timer ran out
22011* always minion EXTERR
22012* link minion fatal link interrupt
22013* note minion link interrupt (DLREQ, PMDISABLED, TLREQ)
23001* always ingress SRC-VC buffer overflow
23002* always ingress SRC-VC buffer underflow
23003* always egress DST-VC credit overflow
23004* always egress DST-VC credit underflow
23005* always ingress packet burst error
23006* always ingress packet sticky error
23007* always possible bubbles at ingress
23008* always ingress packet invalid dst error
23009* always ingress packet parity error
23010* always ingress SRC-VC buffer overflow
23011* always ingress SRC-VC buffer underflow
23012* always egress DST-VC credit overflow
23013* always egress DST-VC credit underflow
23014* always ingress packet burst error
23015* always ingress packet sticky error
23016* always possible bubbles at ingress
23017* always ingress credit parity error
24001* note sourcetrack TCEN0 crumbstore ECC limit
24002* note sourcetrack TCEN0 TD crumbstore ECC limit
24003* note sourcetrack TCEN1 crumbstore ECC limit
24004* link sourcetrack TCEN0 crumbstore DBE
24005* link sourcetrack TCEN0 TD crumbstore DBE
24006* link sourcetrack TCEN1 crumbstore DBE
24007* link sourcetrack timeout error
24008  link sourcetrack duplicate CREQ
24009  link sourcetrack invalid TCEN0 CREQ
24010  link sourcetrack invalid TCEN1 CREQ
25001  warn illegal link state request
25002  warn failed minion request
25003  warn reserved link state request
25004  warn link state written while busy
25005  warn link state request timeout
25006  warn write to a locked register
25007  link sleep request while a link is active
25008  link reset sequencer timeout (PHYCTL)
25009  link reset sequencer timeout (CLKCTL)
25010  link ALI training failure
26002  soe SOE does not start
26003  warn SOE takes no command
26004  warn SOE command timeout
26006  soe SOE halted
26007  soe SOE external error
26008  soe SOE watchdog error
27001  module CCI reset failed
27002  module CCI does not start
27004  module CCI shutdown
27005  module cable module faulty
27006  module cable module does not boot
27007  module cable module not recovered
28001  thermal a cable module is warm
28002  note a cable module has cooled down
28003  thermal a cable module is too hot
28004  note a cable module is no longer too hot
28005  thermal cable modules shut down, heartbeat lost
29001  note MC TS tag store single-bit threshold
29002  link MC TS tag store fatal ECC
29003  note MC TS crumbstore single-bit threshold
29004  link MC TS crumbstore fatal ECC
29005  link MC crumbstore overwrite
29006  warn MC TS crumbstore MCTO
30001  note red TS tag store single-bit threshold
30002  link red TS tag store fatal ECC
30003  note red TS crumbstore single-bit threshold
30004  link red TS crumbstore fatal ECC
30005  link red crumbstore overwrite
30006  warn red TS crumbstore RTO
"""
